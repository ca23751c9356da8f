"""The version of a body: what changes it, what does not, and that every Python agrees."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flowstone.errors import LoadFailed
from flowstone.journal import versions
from flowstone.journal.versions import version_of

BODY = """
@workflow
async def body(flow: Flow, order: Order, limit: int = 3) -> Receipt:
    total = 1
    def inner(a, b=2):
        return a + b
    return await flow.do("charge", charge, order)
"""


def hash_of(source: str, name: str = "body") -> str:
    return version_of(textwrap.dedent(source), name).hash


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    total = 1\n", "    total = 1  # why\n\n"),
        ("    total = 1\n", '    """Sell one order."""\n    total = 1\n'),
        ("        return a + b", '        """Add."""\n        return (a\n            + b)'),
        ("    total = 1\n", "    total: int = 1\n"),
        ("    total = 1\n", "    total: int\n    total = 1\n"),
        ('"charge", charge', "'char' 'ge', charge"),
        ('"charge", charge', 'f"charge", charge'),
        ("@workflow\n", '@workflow(name="other", tags=["x"])\n'),
        ("async def", "\n\nasync def"),
        ("(flow: Flow", "(  # type: ignore\n    flow: Flow"),
    ],
)
def test_what_does_nothing_does_not_change_the_version(before: str, after: str) -> None:
    assert before in BODY
    assert hash_of(BODY.replace(before, after)) == hash_of(BODY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("total = 1", "total = True"),
        ("total = 1", "total = 1.0"),
        ("total = 1", "total = '1'"),
        ("total = 1", "total = b'1'"),
        ("total = 1", "total = None"),
        ("total = 1", "total = ..."),
        ("total = 1", "total += 1"),
        ("limit: int = 3", "limit: int = 4"),
        ("limit: int = 3", "limit: str = 3"),
        ("limit: int", "*, limit: int"),
        ("-> Receipt", "-> Order"),
        ("b=2", "b=3"),
        ("a + b", "a - b"),
        ("    def inner", "    @cache\n    def inner"),
        ("    def inner", "    async def inner"),
        ("await flow.do", "flow.do"),
        ('"charge", charge', '"charge", refund'),
        ("total = 1", "total = f'{x}'"),
        ("total = 1", "class A:\n        total: int = 1"),
    ],
)
def test_what_does_something_changes_the_version(before: str, after: str) -> None:
    assert before in BODY
    assert hash_of(BODY.replace(before, after)) != hash_of(BODY)


def test_versions_of_different_bodies_differ_where_texts_are_close() -> None:
    bodies = [
        "return",
        "return None",
        "return 'None'",
        "return f'{x}'",
        "return f'{x!r}'",
        "return f'{x:>3}'",
        "return f'{x:>{3}}'",
        "return '{x}'",
        "return [a, b]",
        "return (a, b)",
        "return a, [b]",
        "return {a: b}",
        "return {**b}",
        "return {a, b}",
        "return -0.0",
        "return 0.0",
        "return 'é'",
        "return 'e\u0301'",
        "return '\\\\xe9'",
        "class A:\n        x: int = 1",
        "class A:\n        x: str = 1",
        "class A:\n        x = 1",
    ]
    hashes = {hash_of(f"def body(x):\n    {body}\n") for body in bodies}
    assert len(hashes) == len(bodies)


def test_helpers_steps_and_other_functions_do_not_count() -> None:
    assert hash_of("LIMIT = 3\n@step\ndef charge(order): ...\n" + BODY + "\ndef after(): ...\n") == hash_of(BODY)


def test_the_source_is_the_function_with_its_decorators() -> None:
    source = "X = 1\r\n\n@workflow(\n    name='a',\n)\ndef body(flow):\n    a = 'x\x0cy'\n    return a\n\nY = 2\n"
    assert version_of(source, "body").source == "@workflow(\n    name='a',\n)\ndef body(flow):\n    a = 'x\x0cy'\n    return a\n"


def test_a_function_inside_another_is_found_by_qualified_name_and_by_line() -> None:
    source = "def body(): return 1\ndef outer():\n    @mark\n    def body(): return 2\ndef body(): return 3\n"
    one, two, three = (hash_of(f"def body(): return {number}") for number in (1, 2, 3))
    assert hash_of(source) == three
    assert hash_of(source, "outer.<locals>.body") == two
    assert version_of(source, "outer.<locals>.body").source == "@mark\ndef body(): return 2\n"
    assert version_of(source, "body", 1).hash == one
    assert version_of(source, "body", 3).hash == version_of(source, "body", 4).hash == two


def test_a_graph_counts_by_its_assignment() -> None:
    assert hash_of("g = graph('a', nodes={})", "g") == hash_of("g: Graph = graph('a',  nodes={})", "g")
    assert hash_of("g = graph('a', nodes={})", "g") != hash_of("g = graph('a', nodes={'b': c})", "g")


def test_a_missing_function_is_refused() -> None:
    with pytest.raises(LoadFailed, match="no function other body"):
        version_of("x = 1\n", "other body")
    with pytest.raises(LoadFailed, match="at line 7"):
        version_of(BODY, "body", 7)


def test_huge_numbers_and_deep_expressions_have_a_version() -> None:
    assert hash_of(f"def body(): return 0x{'f' * 5000}") != hash_of(f"def body(): return 0x{'f' * 5001}")
    assert hash_of(f"def body(): return {' + '.join(['x'] * 900)}") != hash_of("def body(): return x")


SAMPLES = [
    BODY,
    "def body(a, /, b: int = 1, *c, d=2, e: str, **f) -> None: pass",
    "async def body(flow):\n async with a as b, c:\n  async for x in y:\n   pass\n  else:\n   del z[1:2, ::3], w[*q]",
    "def body():\n try:\n  raise A from B\n except (C, D) as e:\n  ...\n except:\n  pass\n else:\n  x\n finally:\n  y",
    "def body():\n try:\n  pass\n except* A:\n  pass",
    "def body(x):\n match x:\n  case {'a': [1, *r], **k} if k: pass\n  case P(1, b=None) | 'q' as z: pass\n  case _: pass",
    "def body():\n return f'a{x}b' f'{y!r:>{w}}' 'c' f'{z=}' f'{q:}' f'' f'{{}}' f'{m = !s:%d}' f'{n:a{o}b}'",
    "def body():\n return f'''a\n{x\n}''' 'tail' f'{d:%Y-%m}' rf'\\d{x}' f'\\N{BULLET}\\x41{x}'",
    "def body():\n return f'', f'abc', f'' 'abc', 'a' f'' 'b', f'{1}' '', u'x' 'y', b'a' b'b'",
    "def body():\n return 'a🫨\u0378\\udc80'.replace, 1e999, -0.0, 1j, 0xfff, ..., True, None, b'\\xff', '\\ud800'",
    "def body():\n return [a async for a in b if c for d in e], {x: y for x, y in z},"
    " {*a}, (i for i in j), lambda *a, k=1: (yield)",
    "def body():\n global a\n import b.c as d, e\n from ..f import g as h\n"
    " assert (x := 1), 'm'\n while not a: break\n else: continue_ = 1",
    "class A:\n def body(self):\n  class B(C, metaclass=D):\n   '''doc'''\n   x: int\n   y: 'str' = 1\n"
    "  return a if b else ~c, d < e is not f",
    "def body():\n return a[1, 2], a[b:], a @ b, a ** -b, not a and b or c, await_, print(*a, k=1, **b), {**a, 'b': 1}",
    "g = graph('x', nodes={'a': node(f, next=['b'])})",
]
STORED = [
    "1025876473db",
    "0811aec0f574",
    "767d38739850",
    "f7f4c9d130bc",
    "9adef1d0402d",
    "c61916e4b3f1",
    "a20abc9aeed4",
    "136eb86b63cd",
    "c0285fd9166f",
    "59239e143fd0",
    "8dae24e7c3d9",
    "9bb7ae2b94cb",
    "c965cb6b8774",
    "1030188619ba",
    "7eabbab4628c",
]


def names_of_samples() -> list[str]:
    return ["g" if sample.startswith("g =") else "body" for sample in SAMPLES]


def other_pythons() -> list[str]:
    """The interpreters of other versions, from 3.11 on, that this machine has."""
    minors = [minor for minor in range(11, 16) if minor != sys.version_info.minor]
    found = {shutil.which(f"python3.{minor}") for minor in minors}
    found |= {str(path) for minor in minors for path in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")}
    return sorted(path for path in found if path is not None)


def test_stored_hashes_stay_as_they_are() -> None:
    assert [version_of(sample, name).hash for sample, name in zip(SAMPLES, names_of_samples(), strict=True)] == STORED


@pytest.mark.parametrize("python", other_pythons())
def test_every_python_gives_the_same_hashes(python: str) -> None:
    code = (
        "import json, sys; from flowstone.journal.versions import version_of;"
        "print(json.dumps([version_of(*pair).hash for pair in json.load(sys.stdin)]))"
    )
    done = subprocess.run(
        [python, "-c", code],
        input=json.dumps([*zip(SAMPLES, names_of_samples(), strict=True)]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(versions.__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode == 127:  # a version manager's stand-in for a Python that is not chosen
        pytest.skip(f"{python} does not start")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == STORED
