"""Nothing from data is obeyed, hidden or reordered by a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowstone_cli import json_text
from flowstone_cli.clean import cells, clean, fit, head, one_line

NASTY = [chr(code) for code in (*range(32), *range(127, 160))] + list(
    "\u200b\u200d\u202a\u202e\u2028\u2029\u2066\ufeff\u00ad\U000e0041"
)
texts = st.text(alphabet=st.one_of(st.characters(), st.sampled_from(NASTY), st.sampled_from("é日本語👩‍💻e\u0301\ud800")))


def is_harmless(text: str, keep: str = "") -> bool:
    return all(char in keep or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text)


@given(texts)
def test_clean_text_holds_nothing_that_a_terminal_obeys(text):
    assert is_harmless(clean(text), keep="\n\t")
    assert is_harmless(one_line(text))
    assert clean(clean(text)) == clean(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_stays_as_it_is(text):
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("good\rBAD", "good\\x0dBAD"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\u200bb", "a<U+200B>b"),
        ("\ud800", "<U+D800>"),
        ("[/tmp] :x: [b]", "[/tmp] :x: [b]"),
    ],
)
def test_what_is_unsafe_is_shown_by_its_name(text, shown):
    assert clean(text) == shown


@given(texts, st.integers(0, 60))
def test_cutting_never_exceeds_the_width(text, width):
    shown = one_line(text)
    for cut in (fit(shown, width), head(shown, width)):
        assert cells(cut) <= width
        assert cut == shown or cells(shown) > width


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("", 0)])
def test_cells_of_text(text, width):
    assert cells(text) == width


def test_the_middle_is_cut_so_that_head_and_tail_stay():
    assert fit("reserve_stock_for_order", 11) == "reser…order"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_json_is_harmless_and_reads_back(value):
    assert is_harmless(json_text.compact(value))
    assert json.loads(json_text.compact(value)) == value
    assert is_harmless(json_text.pretty(value), keep="\n")
    assert json.loads(json_text.pretty(value)) == value


def test_a_document_writes_integers_that_others_would_round_as_text():
    document = json.loads(json_text.document({"small": 2**53, "large": [2**53 + 1, -(2**60)], "text": "1" * 20, "yes": True}))
    assert document == {"small": 2**53, "large": [str(2**53 + 1), str(-(2**60))], "text": "1" * 20, "yes": True}


def test_json_has_no_form_for_nan():
    with pytest.raises(ValueError, match="JSON"):
        json_text.compact(float("nan"))
