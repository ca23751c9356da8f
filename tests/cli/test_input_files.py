"""What -i, --set and --set-str take and refuse."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone.errors import BadData, NotFound, UsageError
from flowstone_cli import input_files, strict_json


def read(*files, sets=(), strs=(), arguments=()):
    return input_files.read([str(file) for file in files], sets, strs, arguments).value


def test_nothing_given_is_no_input():
    given_input = input_files.read([], [], [], [])
    assert (given_input.given, given_input.value) == (False, None)


def test_files_merge_left_to_right_and_fields_come_last(write):
    first = write("a.json", '{"a": 1, "deep": {"x": 1, "y": 1}}')
    second = write("b.json", '{"a": 2, "deep": {"y": 2}}')
    assert read(first, second, sets=["deep.z=3"]) == {"a": 2, "deep": {"x": 1, "y": 2, "z": 3}}


def test_a_value_of_set_is_json_if_it_parses_else_text():
    sets = ["n=3", "t=three", "l=[1]", "o.p=null", 'q="3"', "e=", "nan=NaN", "at=@@home"]
    assert read(sets=sets) == {"n": 3, "t": "three", "l": [1], "o": {"p": None}, "q": "3", "e": "", "nan": "NaN", "at": "@home"}


def test_set_str_is_always_text():
    assert read(strs=["n=3", "l=[1]"]) == {"n": "3", "l": "[1]"}


def test_set_and_set_str_apply_in_the_order_of_the_command_line():
    arguments = ["run", "w", "--set", "a=1", "--set-str=a=2", "--set", "b=1"]
    assert read(sets=["a=1", "b=1"], strs=["a=2"], arguments=arguments) == {"a": "2", "b": 1}
    arguments = ["run", "w", "--set-str", "a=2", "--set", "a=1"]
    assert read(sets=["a=1"], strs=["a=2"], arguments=arguments) == {"a": 1}


def test_a_value_can_come_from_a_file(write):
    assert read(sets=[f"o=@{write('o.json', '[1]')}"], strs=[f"t=@{write('t.txt', 'a=b')}"]) == {"o": [1], "t": "a=b"}


@pytest.mark.parametrize("bad", ["a", "=1", "a..b=1", ".a=1"])
def test_a_set_without_a_name_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        read(sets=[bad])


def test_a_field_of_what_is_no_object_is_refused(write):
    with pytest.raises(BadData, match=r"a is no object"):
        read(sets=["a=1", "a.b=2"])
    with pytest.raises(BadData, match=r"the input is no object"):
        read(write("l.json", "[1]"), sets=["a=1"])
    with pytest.raises(BadData, match=r"only objects can be merged"):
        read(write("l.json", "[1]"), write("m.json", "{}"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_files_may_be_in_any_unicode_encoding_and_with_crlf(write, encoding):
    assert read(write("a.json", '{\r\n"k": "Zoë"\r\n}'.encode(encoding))) == {"k": "Zoë"}


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ('{"a": 1,\n  "a": 2}', "line 2, column 3", "twice"),
        ('{"a": {"b": 1, "b": 2}}', "line 1, column 16", "twice"),
        ("{} {}", "line 1, column 4", "more after"),
        ('{"a": NaN}', "line 1, column 7", "NaN"),
        ("[-Infinity]", "line 1, column 2", "Infinity"),
        ("[1,\n1e999]", "line 2, column 1", "float"),
        ("1" * 4301, "line 1, column 1", "4,300 digits"),
        ('["\\ud800"]', "line 1, column 2", "surrogate"),
        ("[" * 201 + "]" * 201, "line 1, column 201", "200 deep"),
        ("[" * 100_000, "line 1, column 201", "200 deep"),
        ("{'a': 1}", "line 1, column 2", "double quotes"),
        ('{"a": 1,}', "line 1, column 9", "expected a name"),
        ("[1, 2", "line 1, column 6", "ends here"),
        ("// note\n{}", "line 1, column 1", "comments"),
        ("01", "line 1, column 1", "not JSON"),
        ('"a\tb"', "line 1, column 1", "control character"),
    ],
)
def test_what_is_not_taken_is_refused_with_its_place(write, text, place, why):
    with pytest.raises(BadData) as caught:
        read(write("in.json", text))
    assert place in caught.value.message
    assert why in caught.value.message
    assert "in.json" in caught.value.message


def test_a_refusal_never_quotes_the_value(write):
    with pytest.raises(BadData) as caught:
        read(write("in.json", '{"token": "sk-secret-999", "token": "sk-secret-999"}'))
    assert "sk-secret" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused_with_their_place(write):
    with pytest.raises(BadData, match=r"line 2, column 2: this byte is not UTF-8"):
        read(write("in.json", b'{"a":\n"\xff"}'))


def test_what_is_no_file_is_refused(tmp_path, write):
    with pytest.raises(NotFound, match="no file"):
        read(tmp_path / "missing.json")
    with pytest.raises(BadData, match="folder"):
        read(tmp_path)
    with pytest.raises(BadData, match="empty"):
        read(write("empty.json", " \n"))
    with pytest.raises(BadData, match="16 MiB"):
        read(write("large.json", b" " * (input_files.LARGEST + 1)))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadData, match="empty"):  # nobody writes to it: no hang
        read(tmp_path / "fifo")


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain, st.booleans())
def test_json_of_every_kind_reads_like_the_standard_parser_does(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    assert strict_json.parse(text, "x") == json.loads(text)
    assert strict_json._value(text) == json.loads(text)


@given(st.text(alphabet='{}[]",:0123456789.eE+-\\ntrufals \n', max_size=30))
def test_both_readers_agree_on_what_is_json(text):
    try:
        quick = strict_json._quick(text)
    except ValueError:
        with pytest.raises(BadData):
            strict_json.parse(text, "x")
    else:
        assert strict_json._value(text) == quick


def test_stdin_is_read_only_when_asked_for(project):
    assert project.flow("run", "hello", "-i", "-", stdin='{"name": "Eva"}').out == '"Hello, Eva"\n'
    assert project.flow("run", "hello", stdin="not json").out == '"Hello, you"\n'
    assert project.flow("run", "hello", "-i", "-", "-i", "-", stdin="{}").code == 2
    closed = project.shell("flow run hello -i - <&-")
    assert (closed.code, "stdin is" in closed.err) in ((66, True), (65, True))
    assert project.terminal("run", "hello", "-i", "-").code == 2


def test_a_shells_substituted_file_is_read(project):
    assert project.shell("""flow run hello -i <(echo '{"name": "Ida"}')""").out == '"Hello, Ida"\n'
