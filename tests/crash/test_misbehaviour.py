"""Steps that do what no step should: the run's end, the exit code and the next command are still right (rows 23 to 43)."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash import judge
from crash.warm import Ended, Warm

Flow = Callable[..., Ended]

WORKFLOWS = """
import asyncio, concurrent.futures, hashlib, locale, os, resource, signal, subprocess, sys, threading, time
from pathlib import Path
from flowstone import Flow, NonRetryable, step, workflow

ROOT = Path(__file__).parents[1]

def note(tag):
    with (ROOT / "effects").open("a") as file:
        file.write(tag + "\\n")

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")
    __repr__ = __str__

def raises_keyboard_interrupt(): raise KeyboardInterrupt
def raises_generator_exit(): raise GeneratorExit
def raises_base_exception(): raise BaseException("base")
def raises_group(): raise BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("x")])
def raises_cancelled(): raise asyncio.CancelledError
async def raises_cancelled_async(): raise asyncio.CancelledError
def raises_stop_iteration(): raise StopIteration(1)
def raises_mute(): raise Mute
def raises_memory_error(): raise MemoryError
def exits_0(): sys.exit(0)
def exits_3(): sys.exit(3)
async def exits_async(): sys.exit(0)

def raises_large():
    raise ValueError("x" * 50_000_000)

def raises_in_a_circle():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    raise one

def recurses():
    return recurses()

def gives_a_generator(): return (n for n in range(3))

def gives_an_object(): return object()
def gives_a_circle():
    found = []
    found.append(found)
    return found

def gives_depth():
    found = []
    for _ in range(500):
        found = [found]
    return found

def forks_and_returns():
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"

def leaves_a_process():
    subprocess.Popen(["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done"], cwd=ROOT, start_new_session=True)
    return "left"

def leaves_a_forked_process():
    if os.fork() == 0:
        os.setsid()
        until = time.monotonic() + 60
        while not (ROOT / "go").exists() and time.monotonic() < until:
            time.sleep(0.02)
        os._exit(0)
    return "left"

def leaves_a_thread():
    threading.Thread(target=lambda: threading.Event().wait(60), name="of odd").start()
    return "left"

async def leaves_a_thread_async():
    return leaves_a_thread()  # a plain step has a daemon thread, so what it starts is one too

def leaves_a_pool():
    global POOL  # idle: it would keep a Python process until that ends
    POOL = concurrent.futures.ThreadPoolExecutor(2)
    return POOL.submit(lambda: "left").result()

async def leaves_a_call_in_a_thread():
    await asyncio.to_thread(threading.Event().wait, 60)

def changes_the_process():
    os.chdir("/")
    os.umask(0)
    os.environ.clear()
    sys.setrecursionlimit(200)
    signal.signal(signal.SIGTERM, signal.SIG_IGN) if threading.current_thread() is threading.main_thread() else None
    sys.stdout = sys.stderr = None
    return "changed"

async def changes_the_process_async():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    return changes_the_process()

def replaces_stdout():
    sys.stdout = open(os.devnull, "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return "replaced"

async def blocks_the_loop():
    time.sleep(2.2)
    return "late"

async def holds_the_loop(how):
    (ROOT / "held").touch()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if how == "sleep":
            time.sleep(60)
        elif how == "c":
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 30_000_000)

def closes(lowest, taken):
    # All descriptors from a number on; files of its own are then given numbers that were those of others.
    if (ROOT / "fixed").exists():
        return "fixed"
    os.closerange(lowest, 256)
    for number in range(taken):
        os.write(os.open(ROOT / f"own-{number}", os.O_RDWR | os.O_CREAT), b"own")
    return "closed"

async def closes_async(lowest, taken):
    return closes(lowest, taken)

def closes_the_streams():
    os.closerange(0, 3)
    return "closed"

def leaves_at_once():
    if not (ROOT / "fixed").exists():
        os._exit(0)
    return "stayed"

def aborts():
    if not (ROOT / "fixed").exists():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()
    return "stayed"

def state_of_process():
    out, err = os.fstat(1), os.fstat(2)
    umask = os.umask(0o022)
    os.umask(umask)
    handlers = [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return [os.getcwd(), umask, handlers, type(sys.stdout).__name__, out.st_ino, err.st_ino]

CHANGES = {
    "the working directory changed": lambda: os.chdir("/"),
    "the umask changed to 000": lambda: os.umask(0),
    "the handling of signals changed": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "stdout or stderr replaced": lambda: setattr(sys, "stdout", open(os.devnull, "w")),
    "stdout or stderr replaced (descriptor)": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 1),
}

async def change(what):
    CHANGES[what]()

def waits_to_go():
    (ROOT / "held").touch()
    while not (ROOT / "go").exists():
        threading.Event().wait(0.01)
    return "gone"

@workflow
async def waiting(flow: Flow) -> str:
    return await flow.do("odd", waits_to_go)

@workflow
async def changing(flow: Flow, what: str) -> bool:
    before = await flow.do("before", state_of_process)
    await flow.do("odd", change, what)
    return before == await flow.do("after", state_of_process)

@workflow
async def timing_out(flow: Flow) -> None:
    await flow.do("odd", leaves_a_call_in_a_thread, timeout="100ms", retries=0)

@workflow
async def holding(flow: Flow, how: str) -> None:
    await flow.do("odd", holds_the_loop, how)

@workflow
async def closing(flow: Flow, function: str, lowest: int, taken: int) -> str:
    await flow.do("before", note, "before")
    found = await flow.do("odd", globals()[function], lowest, taken, retries=0)
    await flow.do("then", note, "then")
    return found

@workflow
async def one(flow: Flow, name: str) -> str:
    function = globals()[name]
    found = await flow.do("odd", function, retries=0)
    await flow.do("then", note, "then")
    return found
"""

FAILS = {
    "raises_keyboard_interrupt": "KeyboardInterrupt",
    "raises_generator_exit": "GeneratorExit",
    "raises_base_exception": "base",
    "raises_group": "several",
    "raises_cancelled": "CancelledError",
    "raises_cancelled_async": "CancelledError",
    "raises_stop_iteration": "StopIteration",
    "raises_mute": "Mute",
    "raises_memory_error": "MemoryError",
    "exits_0": "SystemExit",
    "exits_3": "SystemExit",
    "exits_async": "SystemExit",
    "raises_large": "ValueError",
    "raises_in_a_circle": "one",
    "recurses": "RecursionError",
    "gives_a_generator": "generator",
    "gives_an_object": "object",
    "gives_a_circle": "$",
    "gives_depth": "nested too deeply",
}
COMPLETES = {
    "forks_and_returns": "parent",
    "leaves_a_process": "left",
    "leaves_a_forked_process": "left",
    "leaves_a_thread": "left",
    "leaves_a_pool": "left",
    "changes_the_process": "changed",
    "changes_the_process_async": "changed",
    "replaces_stdout": "replaced",
    "blocks_the_loop": "late",
    "closes_the_streams": "closed",
}
CHANGES = (
    "the working directory changed",
    "the umask changed to 000",
    "the handling of signals changed",
    "stdout or stderr replaced",
    "stdout or stderr replaced (descriptor)",
)
DIES = {"leaves_at_once": 0, "aborts": -signal.SIGABRT}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    warm = Warm(tmp_path_factory.mktemp("outputs"))
    yield warm
    warm.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "project"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "work.py").write_text(WORKFLOWS)
    yield root
    (root / "go").touch()


@pytest.fixture
def flow(warm: Warm, root: Path) -> Flow:
    return lambda *words: warm.flow(root, *words)


def run(flow: Flow, root: Path, name: str, code: int, status: str) -> Ended:
    """Run it, check the exit code and that journal, row and the next commands agree."""
    ended = flow("run", "one", "--set-str", f"name={name}", "--json")
    assert ended.code == code, ended
    assert "Traceback" not in ended.err.replace('"trace', "")
    [(row, events)] = judge.read(root)
    judge.consistent(row, events)
    assert row.status == status, row
    assert flow("runs").code == 0
    return ended


@pytest.mark.parametrize("name", FAILS)
def test_whatever_a_step_raises_or_gives_fails_its_run_and_nothing_else(flow: Flow, root: Path, name: str) -> None:
    ended = run(flow, root, name, 1, "failed")
    error = json.loads(ended.out)["error"]
    assert FAILS[name] in f"{error['type']}: {error['message']}"
    assert len(error["message"]) <= 8192 + 100
    assert len(ended.out) + len(ended.err) < 300_000
    assert not (root / "effects").exists()


@pytest.mark.parametrize("name", COMPLETES)
def test_whatever_a_step_does_to_its_process_the_run_goes_on(flow: Flow, root: Path, name: str) -> None:
    ended = run(flow, root, name, 0, "completed")
    assert json.loads(ended.out)["output"] == COMPLETES[name]
    assert (root / "effects").read_text() == "then\n"
    assert {path.stat().st_mode & 0o077 for path in (root / ".flow").iterdir() if path.name.startswith("flow.db")} == {0}
    # What was left behind holds neither the lock nor the run.
    assert flow("run", "one", "--set-str", "name=blocks_the_loop").code == 0


@pytest.mark.parametrize("name", DIES)
def test_a_step_that_ends_its_process_is_an_interrupted_run(flow: Flow, root: Path, name: str) -> None:
    ended = flow("run", "one", "--set-str", f"name={name}")
    assert (ended.code, ended.out) == (DIES[name], "")
    assert json.loads(flow("status", "@last", "--json").out)["phase"] == "interrupted"
    (root / "fixed").touch()
    assert flow("recover").code == 0
    assert flow("output", "@last")[:2] == (0, '"stayed"\n')


def test_what_a_step_leaves_in_threads_gets_five_seconds_and_is_named(flow: Flow, root: Path) -> None:
    for words, code, name in (
        (("one", "--set-str", "name=leaves_a_thread_async"), 0, "of odd"),
        (("timing_out",), 1, "ThreadPoolExecutor"),
    ):
        begun = time.monotonic()
        ended = flow("run", *words)
        assert ended.code == code
        assert re.search(f"warning: what a step has left in threads goes on, and is ended now: {name}", ended.err)
        assert 5 <= time.monotonic() - begun < 30
    begun = time.monotonic()
    assert "threads" not in flow("run", "one", "--set-str", "name=leaves_a_pool").err
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_step_leaves_changed_in_its_process_is_set_back_and_told(flow: Flow, what: str) -> None:
    ended = flow("run", "changing", "--set-str", f"what={what}")
    assert ended[:2] == (0, "true\n")
    assert f'warning: step "odd" has left {what.partition(" (")[0]}; it is set back' in ended.err


def test_a_step_that_holds_up_the_event_loop_is_told_with_its_line(flow: Flow) -> None:
    ended = flow("run", "one", "--set-str", "name=blocks_the_loop")
    line = next(number for number, text in enumerate(WORKFLOWS.splitlines(), 1) if "time.sleep(2.2)" in text)
    assert f'the step "odd" holds up everything else at workflows/work.py:{line}: ' in ended.err
    assert "holds up" not in flow("run", "one", "--set-str", "name=forks_and_returns").err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["sleep", "loop", "c"])
def test_a_second_signal_leaves_at_once_also_while_a_step_holds_up_the_loop(
    warm: Warm, root: Path, flow: Flow, how: str, number: int
) -> None:
    command = warm.start(root, "run", "holding", "--set", f"how={how}")
    until(lambda: (root / "held").exists())
    command.signal(number)
    until(lambda: "stopping" in command.told())
    begun = time.monotonic()
    command.signal(number)
    assert command.wait().code == 128 + number
    assert time.monotonic() - begun < 5
    assert json.loads(flow("status", "@last", "--json").out)["phase"] == "interrupted"


def test_a_stopped_process_keeps_its_run_until_it_is_taken_over(warm: Warm, root: Path, flow: Flow) -> None:
    command = warm.start(root, "run", "waiting")
    until(lambda: (root / "held").exists())
    command.signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{command.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    refused = flow("resume", "@last")
    assert (refused.code, refused.out) == (75, "")
    assert f"is being executed by pid {command.pid}" in refused.err
    assert "which is stopped" in refused.err
    assert "--takeover takes the run from it" in refused.err
    assert f"try: kill -CONT {command.pid}" in refused.err
    (root / "go").touch()
    assert flow("resume", "@last", "--takeover")[:2] == (0, '"gone"\n')
    [(_, before)] = judge.read(root)
    command.signal(signal.SIGCONT)
    assert command.wait().code == 75
    assert judge.read(root)[0][1] == before


@pytest.mark.parametrize("words", [("run", "slow"), ("show", "slow"), ("check", "slow")])
def test_an_import_that_takes_long_is_told_and_ctrl_c_ends_it(warm: Warm, root: Path, words: tuple[str, ...]) -> None:
    (root / "workflows" / "slow.py").write_text(
        "import time\nfrom flowstone import workflow\n@workflow\nasync def slow(flow): ...\nwhile True: time.sleep(0.1)\n"
    )
    command = warm.start(root, *words)
    until(lambda: "importing workflows/slow.py takes long: 5 s so far, now at workflows/slow.py:5" in command.told())
    command.signal(signal.SIGINT)
    ended = command.wait()
    assert (ended.code, ended.out) == (130, "")


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, at most a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        signal.sigtimedwait([], 0.02)


@pytest.mark.parametrize("taken", [0, 60])
@pytest.mark.parametrize("lowest", [0, 3])
@pytest.mark.parametrize("function", ["closes", "closes_async"])
def test_a_step_that_closes_every_descriptor_stops_the_run_which_goes_on_later(
    flow: Flow, root: Path, function: str, lowest: int, taken: int
) -> None:
    ended = flow("run", "closing", "--set", f"function={function}", "--set", f"lowest={lowest}", "--set", f"taken={taken}")
    assert (ended.code, ended.out) == (74, ""), ended
    assert "error: the open files of this process were closed by a step" in ended.err
    assert "Traceback" not in ended.err
    [(row, events)] = judge.read(root)
    judge.consistent(row, events)
    # What was meant for the database has not gone into files that were given its descriptors.
    assert {file.read_bytes() for file in root.glob("own-*")} <= {b"own", b""}
    (root / "fixed").touch()
    assert flow("recover").code == 0
    assert flow("output", "@last")[:2] == (0, '"fixed"\n')
    assert (root / "effects").read_text() == "before\nthen\n"


@pytest.mark.parametrize("lowest", [0, 1, 2])
def test_a_step_that_closes_the_streams_too_leaves_stdout_empty_under_json(flow: Flow, root: Path, lowest: int) -> None:
    words = ("run", "closing", "--json", "--set", "function=closes", "--set", f"lowest={lowest}", "--set", "taken=0")
    ended = flow(*words)
    assert (ended.code, ended.out) == (74, ""), ended
    assert json.loads(ended.err.splitlines()[-1])["code"] == 74
