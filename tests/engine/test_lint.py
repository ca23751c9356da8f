"""What `flow check` doubts about bodies: what a replay cannot repeat, by line and with the cure. And what it leaves alone."""

import textwrap
from pathlib import Path

import pytest

from flowstone.authoring.names import scan
from flowstone.journal.lint import Doubt, doubts_in
from flowstone.journal.lint_names import Habit

IMPORTS = """
import asyncio
import datetime as dt
import glob
import hashlib
import os
import os.path
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid
from datetime import date, datetime, timezone
from os import environ
from pathlib import Path
from random import choice
from time import monotonic as ticks
from uuid import uuid4
import httpx
import numpy as np
import requests
from flowstone import Flow, step, workflow

TAGS = {"a", "b"}
FOLDER = Path("data")
now = datetime.now
rng = random.Random()
seeded = random.Random(7)
client = httpx.Client()

@step
def charge(order): return time.time()

def stamp(): return time.time()

def pure(x): return x + 1

def deeper(x): return stamp()
"""


def doubts(body: str, *, parameters: str = "order", around: str = "") -> list[Doubt]:
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return doubts_in(f"{IMPORTS}{textwrap.dedent(around)}\n@workflow\nasync def body(flow, {parameters}):\n{inside}\n", "body")


TRUE = {
    "datetime.now()": Habit.CLOCK,
    "datetime.now(timezone.utc)": Habit.CLOCK,
    "dt.datetime.utcnow()": Habit.CLOCK,
    "date.today()": Habit.CLOCK,
    "now()": Habit.CLOCK,
    "time.time()": Habit.CLOCK,
    "ticks()": Habit.CLOCK,
    "time.strftime('%Y')": Habit.CLOCK,
    "time.localtime()": Habit.CLOCK,
    "f'{time.time()}'": Habit.CLOCK,
    "[time.time() for _ in order]": Habit.CLOCK,
    "order.sort(key=lambda x: time.time())": Habit.CLOCK,
    "await flow.do('a', charge, datetime.now())": Habit.CLOCK,
    "await flow.do(f'a {datetime.now()}', charge)": Habit.CLOCK,
    "if time.time() > 3: pass": Habit.CLOCK,
    "while time.time() < order: pass": Habit.CLOCK,
    "deadline = order or time.monotonic()": Habit.CLOCK,
    "time.sleep(1)": Habit.WAIT,
    "await asyncio.sleep(1)": Habit.WAIT,
    "await asyncio.wait_for(flow.do('a', charge), 3)": Habit.WAIT,
    "async with asyncio.timeout(3): pass": Habit.WAIT,
    "random.random()": Habit.RANDOM,
    "random.shuffle(order)": Habit.RANDOM,
    "choice(order)": Habit.RANDOM,
    "rng.random()": Habit.RANDOM,
    "random.Random()": Habit.RANDOM,
    "secrets.token_hex()": Habit.RANDOM,
    "os.urandom(4)": Habit.RANDOM,
    "np.random.rand()": Habit.RANDOM,
    "uuid4()": Habit.UUID,
    "uuid.uuid1()": Habit.UUID,
    "str(uuid.uuid4())": Habit.UUID,
    "os.environ['A']": Habit.PLACE,
    "os.environ.get('A')": Habit.PLACE,
    "environ['A']": Habit.PLACE,
    "os.getenv('A')": Habit.PLACE,
    "os.getpid()": Habit.PLACE,
    "socket.gethostname()": Habit.PLACE,
    "sys.argv[1]": Habit.PLACE,
    "Path.cwd()": Habit.PLACE,
    "open('a').read()": Habit.FILE,
    "with open('a') as file: pass": Habit.FILE,
    "os.listdir('.')": Habit.FILE,
    "os.path.exists('a')": Habit.FILE,
    "glob.glob('*')": Habit.FILE,
    "Path('a').exists()": Habit.FILE,
    "(Path('a') / 'b').stat().st_size": Habit.FILE,
    "(FOLDER / order).with_suffix('.x').unlink()": Habit.FILE,
    "order.read_text()": Habit.FILE,
    "requests.get('http://x')": Habit.NETWORK,
    "client.get('http://x')": Habit.NETWORK,
    "urllib.request.urlopen('http://x')": Habit.NETWORK,
    "async with httpx.AsyncClient() as c: pass": Habit.NETWORK,
    "subprocess.run(['ls'])": Habit.PROCESS,
    "os.system('ls')": Habit.PROCESS,
    "threading.Thread(target=print)": Habit.THREAD,
    "await asyncio.to_thread(print)": Habit.THREAD,
    "hash(order)": Habit.HASH,
    "input('go on?')": Habit.PERSON,
    "for x in {'a', 'b'}: await flow.do(x, charge)": Habit.SET,
    "for x in set(order): pass": Habit.SET,
    "for x in TAGS: pass": Habit.SET,
    "[x for x in set(order)]": Habit.SET,
    "{x: 1 for x in set(order)}": Habit.SET,
    "list(TAGS)": Habit.SET,
    "[*TAGS]": Habit.SET,
    "for i, x in enumerate(TAGS): pass": Habit.SET,
    "', '.join(TAGS)": Habit.SET,
    "await flow.map('m', charge, TAGS)": Habit.SET,
    "await asyncio.gather(*(flow.do(x, charge) for x in TAGS))": Habit.SET,
    "for x in TAGS | {'c'}: pass": Habit.SET,
    "for x in TAGS.union(order): pass": Habit.SET,
    "for x in order.keys() - {'a'}: pass": Habit.SET,
    "seen = set()\nfor x in seen: pass": Habit.SET,
    "done, pending = await asyncio.wait(order)\nfor t in done: pass": Habit.SET,
    "{await flow.do(x, charge) for x in TAGS}": Habit.SET,
    "await charge(order)": Habit.DIRECT,
    "try: order()\nexcept: pass": Habit.SWALLOW,
    "try: order()\nexcept BaseException as error: order(error)": Habit.SWALLOW,
    "try: order()\nexcept (ValueError, BaseException): pass": Habit.SWALLOW,
    "global TAGS": Habit.GLOBAL,
}


@pytest.mark.parametrize("code", TRUE)
def test_what_a_replay_cannot_repeat_is_doubted_once(code: str) -> None:
    assert [doubt.message for doubt in doubts(code)] == [TRUE[code].said]


FALSE = [
    "flow.now()",
    "flow.random.random()",
    "flow.uuid('x')",
    "seeded.random()",
    "random.Random(3)",
    "uuid.uuid5(uuid.NAMESPACE_DNS, order)",
    "uuid.UUID(order)",
    "datetime.fromisoformat(order)",
    "datetime(2030, 1, 1)",
    "time.strftime('%Y', order)",
    "time.gmtime(order)",
    "await asyncio.sleep(0)",
    "await flow.do('a', lambda: time.time())",
    "await flow.do('a', stamp)",
    "await flow.do('a', charge, order, undo=stamp, on_error=stamp)",
    "await flow.map('a', lambda x: open(x), order)",
    "async def one(): return time.time()\nawait flow.do('a', one)",
    "def one(): return open('a')\nawait flow.do('a', one)",
    "pure(order)",
    "order.time()",
    "order.now()",
    "order.open()",
    "order.exists()",
    "order.random.random()",
    "Path('a') / 'b'",
    "Path('a').name",
    "FOLDER.with_suffix('.x')",
    "os.path.join('a', 'b')",
    "urllib.parse.quote(order)",
    "hashlib.sha256(order)",
    "raise subprocess.SubprocessError()",
    "for x in [1, 2]: pass",
    "for x in {1, 2}: pass",
    "for x in sorted(TAGS): pass",
    "for x in sorted(x for x in TAGS): pass",
    "for x in {'a': 1}: pass",
    "'a' in TAGS",
    "len(TAGS)",
    "sum(len(x) for x in TAGS)",
    "any(x == order for x in TAGS)",
    "{x for x in TAGS}",
    "{*TAGS, 'c'}",
    "set(TAGS) | {'c'}",
    "tags = {'a'}\ntags = ['a']\nfor x in tags: pass",
    "TAGS = ['a']\nfor x in TAGS: pass",
    "random = order\nrandom.choice(1)",
    "def open(x): return x\nopen(1)",
    "for time in order: time.time()",
    "try: order()\nexcept Exception: pass",
    "try: order()\nexcept: order(); raise",
    "try: order()\nexcept BaseException:\n    if order: raise",
    "try: order()\nfinally: order()",
    "class Local:\n    def open(self): return time.time()",
]


@pytest.mark.parametrize("code", FALSE)
def test_what_repeats_itself_or_belongs_to_a_step_is_left_alone(code: str) -> None:
    assert doubts(code) == []


@pytest.mark.parametrize("parameters", ["random", "time, order", "open: str", "order, *, date"])
def test_a_parameter_is_no_module(parameters: str) -> None:
    name = parameters.split(":")[0].split(",")[0 if "*" not in parameters else -1].strip(" *")
    call = {"random": "random.choice(1)", "time": "time.time()", "open": "open(1)", "date": "date.today()"}[name]
    assert doubts(call, parameters=parameters) == []


def test_a_parameter_that_is_annotated_as_a_set_is_one() -> None:
    assert [doubt.call for doubt in doubts("for x in tags: pass", parameters="tags: set[str]")] == ["tags"]
    assert doubts("for x in tags: pass", parameters="tags: list[str]") == []


def test_a_doubt_names_line_call_and_cure() -> None:
    (found,) = doubts("a = 1\nb = datetime.now(timezone.utc)")
    assert (found.call, found.cure) == ("datetime.now()", "flow.now()")
    assert f"{IMPORTS}\n".count("\n") + 4 == found.line
    (found,) = doubts("await charge(order)")
    assert found.cure == 'flow.do("name", charge, ...)'


def test_what_the_body_calls_of_its_file_is_read_too_and_told_where_it_stands() -> None:
    line = IMPORTS[: IMPORTS.index("def stamp")].count("\n") + 1
    for code in ("stamp()", "deeper(order)", "order and deeper(stamp())"):
        assert {(doubt.line, doubt.call) for doubt in doubts(code)} == {(line, "time.time()")}


def test_a_branch_that_the_body_calls_is_part_of_it() -> None:
    (found,) = doubts("""
        async def branch(x):
            for tag in own:
                await flow.do(tag, charge, x)

        own = {"x", order}
        await asyncio.gather(*(branch(x) for x in order))
    """)
    assert (found.call, found.message) == ("own", Habit.SET.said)


def test_functions_that_call_each_other_are_read_once() -> None:
    around = "def a(x): return b(x)\ndef b(x): return a(random.random())"
    assert [doubt.call for doubt in doubts("a(b(1))", around=around)] == ["random.random()"]


def test_an_import_in_the_body_counts() -> None:
    assert [doubt.call for doubt in doubts("import time as t\nt.time()")] == ["t.time()"]
    assert [doubt.call for doubt in doubts("from time import time_ns\ntime_ns()")] == ["time_ns()"]


def test_a_name_of_a_sibling_file_is_not_the_librarys() -> None:
    assert doubts("random.choice(order)", around="from .own import random") == []


def test_what_is_no_function_or_no_python_has_no_doubts() -> None:
    assert doubts_in("body = graph('x')", "body") == []
    assert doubts_in("def body(", "body") == []
    assert doubts_in("x = 1", "nothing") == []


def test_source_that_is_nested_deep_is_read() -> None:
    assert [doubt.call for doubt in doubts(" + ".join(["x"] * 900) + " + time.time()")] == ["time.time()"]


def test_two_bodies_in_one_file_are_told_apart_by_their_lines() -> None:
    source = "import time\n\n\ndef body(flow):\n    time.time()\n\n\ndef body(flow):\n    pass\n"
    assert [doubt.line for doubt in doubts_in(source, "body", 4)] == [5]
    assert doubts_in(source, "body") == []


REPOSITORY = Path(__file__).parents[2]
EXAMPLES = [*(REPOSITORY / "workflows").glob("*.py"), *(REPOSITORY / "cli" / "flowstone_cli" / "templates").glob("*.py")]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_have_no_doubts(file: Path) -> None:
    for one in scan(file).workflows:
        assert doubts_in(file.read_text(), one.attribute, one.line) == []
