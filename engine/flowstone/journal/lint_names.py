"""What must not be called in a body, by its full name, and the cure: data for lint.py.

A body is run again at every pass. What it reads from anywhere but the journal may be another value then.
"""

from enum import Enum

_STEP = 'make it a step: flow.do("name", fn)'


class Habit(Enum):
    """A kind of fault: what is said of the call, and the cure."""

    CLOCK = ("reads the clock, which has gone on at the next replay", "flow.now()")
    WAIT = ("waits in the body, at every replay anew", 'flow.sleep("name", "10m"), or timeout= of the step')
    RANDOM = ("gives other values at the next replay", "flow.random")
    UUID = ("gives another value at the next replay", 'flow.uuid("name")')
    PLACE = ("depends on the machine, the process and its environment", "make it input, or read it in a step")
    FILE = ("uses the file system, at every replay anew", _STEP)
    NETWORK = ("uses the network, at every replay anew", _STEP)
    PROCESS = ("starts a process, at every replay anew", 'flow.shell("name", [...]), or make it a step')
    THREAD = ("starts a thread, whose work no journal keeps", _STEP)
    HASH = ("differs from process to process", "hashlib, or the value itself")
    PERSON = ("waits for somebody at the keyboard", 'flow.approval("reason", schema=...)')
    SET = ("goes over a set, whose order differs from process to process", "sorted(...), or a list instead")
    DIRECT = ("calls a step as a function: it is not recorded, and runs at every replay", 'flow.do("name", {name}, ...)')
    SWALLOW = (
        "catches the cancel of the run and the end of a pass as well, and goes on",
        "except Exception, or raise again",
    )
    GLOBAL = ("changes a variable of the module, which no replay brings back", 'flow.set_state("name", value), or return it')

    def __init__(self, said: str, cure: str) -> None:
        self.said = said
        self.cure = cure


def _names(habit: Habit, module: str, names: str) -> dict[str, Habit]:
    return {f"{module}.{name}": habit for name in names.split()}


NAMES: dict[str, Habit] = {
    **_names(Habit.CLOCK, "datetime.datetime", "now utcnow today"),
    **_names(Habit.CLOCK, "datetime.date", "today"),
    **_names(Habit.CLOCK, "time", "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time thread_time"),
    **_names(Habit.CLOCK, "pandas.Timestamp", "now today utcnow"),
    **_names(Habit.CLOCK, "pendulum", "now today tomorrow yesterday"),
    **_names(Habit.CLOCK, "arrow", "now utcnow"),
    **_names(Habit.WAIT, "time", "sleep"),
    **_names(Habit.WAIT, "asyncio", "timeout timeout_at wait_for"),
    **_names(Habit.UUID, "uuid", "uuid1 uuid4 uuid6 uuid7 getnode"),
    **_names(Habit.RANDOM, "os", "urandom getrandom"),
    **_names(Habit.PLACE, "os", "getenv getenvb getcwd getpid getppid getlogin getuid cpu_count uname"),
    **_names(Habit.PLACE, "os.path", "expanduser expandvars abspath realpath"),
    **_names(Habit.PLACE, "socket", "gethostname getfqdn"),
    **_names(Habit.PLACE, "pathlib.Path", "cwd home"),
    **_names(Habit.FILE, "os", "listdir scandir walk stat lstat access remove unlink rename replace mkdir makedirs rmdir"),
    **_names(Habit.FILE, "os.path", "exists lexists isfile isdir islink getsize getmtime getctime getatime samefile"),
    **_names(Habit.FILE, "io", "open"),
    **_names(Habit.PROCESS, "os", "system popen fork kill execv posix_spawn"),
    **_names(Habit.PROCESS, "asyncio", "create_subprocess_exec create_subprocess_shell"),
    **_names(Habit.THREAD, "asyncio", "to_thread"),
    **_names(Habit.NETWORK, "asyncio", "open_connection start_server"),
}
"""Functions by their full name."""

MODULES: dict[str, Habit] = {
    **dict.fromkeys(("random", "secrets", "numpy.random"), Habit.RANDOM),
    **dict.fromkeys(("platform", "getpass"), Habit.PLACE),
    **dict.fromkeys(("glob", "shutil", "tempfile", "sqlite3"), Habit.FILE),
    **dict.fromkeys(("socket", "urllib.request", "http.client", "smtplib", "ftplib", "imaplib", "poplib"), Habit.NETWORK),
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib3", "boto3", "paramiko"), Habit.NETWORK),
    **dict.fromkeys(("psycopg", "psycopg2", "asyncpg", "pymongo", "redis", "openai", "anthropic"), Habit.NETWORK),
    **dict.fromkeys(("subprocess", "multiprocessing"), Habit.PROCESS),
    **dict.fromkeys(("threading", "concurrent.futures"), Habit.THREAD),
}
"""Modules, of which every function is one; also the methods of what they make."""

READ = {"os.environ": Habit.PLACE, "os.environb": Habit.PLACE, "sys.argv": Habit.PLACE, "sys.stdin": Habit.PERSON}
"""Values that are no function."""

BUILTINS = {"open": Habit.FILE, "input": Habit.PERSON, "hash": Habit.HASH, "id": Habit.HASH}

FIRST_ARGUMENTS = {"time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.asctime": 1, "time.strftime": 2}
"""These read the clock unless they have so many arguments."""

SEEDED = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.SeedSequence"})
"""With an argument they repeat themselves."""

OF_PATHS = frozenset({"exists", "is_file", "is_dir", "is_symlink", "stat", "lstat", "resolve", "absolute", "samefile", "glob"})
OF_PATHS |= {"unlink", "mkdir", "rmdir", "touch", "rename", "replace", "open"}
"""Methods of a path that look at the disk."""

OF_PATHS_ALONE = frozenset({"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob"})
"""The same, whose names tell by themselves that a path has them."""

NO_ORDER = frozenset({"sorted", "set", "frozenset", "sum", "min", "max", "any", "all", "len"})
"""What these make of a set does not depend on its order."""
