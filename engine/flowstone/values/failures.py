"""Errors of authors' code as records: described when they happen, rebuilt as StepFailed for the body, judged for a retry."""

import functools
import json
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flowstone.errors import BadData, FlowError, FlowMisuse, NonRetryable
from flowstone.interrupts import Interrupt
from flowstone.values.json_tree import is_json

T = TypeVar("T")

MESSAGE_BYTES = 8 * 1024
TRACE_BYTES = 64 * 1024
DATA_BYTES = 8 * 1024
CAUSES = 10

NEVER_HEALS: tuple[type[BaseException], ...] = (
    NonRetryable,
    TypeError,
    NameError,
    AttributeError,
    ImportError,
    AssertionError,
    LookupError,
    ValueError,
    FileNotFoundError,
    PermissionError,
    BadData,
    FlowMisuse,
    Interrupt,
    SystemExit,
    KeyboardInterrupt,
)


class StepFailed(Exception):
    """A step has failed for good. Made from the step's record, and also of the class of the original error where possible.

    So `except StepFailed` and `except Declined` both catch it; `__init__` of the original class has not run.
    """

    def __init__(self, record: dict[str, Any], step: str, attempts: int) -> None:
        super().__init__(record.get("message", ""))
        _fill(self, record, step, attempts)

    # Properties, so that attributes of the same name in an author's class cannot get in their way.
    @property
    def step(self) -> str:
        """The step's key."""
        return str(_filled(self)["step"])

    @property
    def type(self) -> str:
        """The qualified name of the original error's class."""
        return str(_filled(self)["record"].get("type", "Exception"))

    @property
    def message(self) -> str:
        """The original error's text."""
        return str(_filled(self)["record"].get("message", ""))

    @property
    def attempts(self) -> int:
        """How many attempts the step had."""
        return int(_filled(self)["attempts"])

    @property
    def data(self) -> dict[str, Any]:
        """The original error's public attributes and `args`, as far as they were plain JSON."""
        return dict(_filled(self)["record"].get("data") or {})

    @property
    def trace(self) -> str:
        """The original traceback as text."""
        return str(_filled(self)["record"].get("trace", ""))

    def __str__(self) -> str:
        said = f'step "{self.step}" failed: {self.type}'
        return f"{said}: {self.message}" if self.message else said

    def __repr__(self) -> str:
        return f"<{self}>"

    __eq__ = BaseException.__eq__  # a dataclass's would compare fields and take the hash away
    __hash__ = BaseException.__hash__

    def __init_subclass__(cls, **_: Any) -> None:
        """Ends here: a class made only for one failure is not announced to the original class."""


def _fill(error: BaseException, record: dict[str, Any], step: str, attempts: int) -> None:
    object.__getattribute__(error, "__dict__")["_flow"] = {"record": record, "step": step, "attempts": attempts}


def _filled(error: BaseException) -> dict[str, Any]:
    filled: dict[str, Any] = object.__getattribute__(error, "__dict__")["_flow"]
    return filled


# Describing


def describe(error: BaseException, *, attempts: int | None = None) -> dict[str, Any]:
    """The record of an error, plain JSON: type, module, mro, message, trace, data, code, notes, attempts. Never raises.

    A StepFailed that leaves the body is described as the original error.
    """
    if issubclass(type(error), StepFailed):  # not isinstance: that asks the object itself
        filled = _filled(error)
        return {**filled["record"], "attempts": filled["attempts"] if attempts is None else attempts}
    kind = type(error)
    no_data: dict[str, Any] = {}
    no_notes: list[str] = []
    return {
        "type": _clean(str(kind.__qualname__)),
        "module": _clean(str(kind.__module__)),
        "mro": [
            _clean(f"{base.__module__}:{base.__qualname__}")
            for base in kind.__mro__
            if base not in (object, BaseException, Exception)
        ],
        "message": _cut(_message(error), MESSAGE_BYTES),
        "trace": _cut(_guarded(lambda: _trace(error), "<traceback failed>"), TRACE_BYTES),
        "data": _guarded(functools.partial(_data, error), no_data),
        "code": _code(kind),
        "notes": _guarded(functools.partial(_notes, error), no_notes),
        "attempts": attempts,
    }


def _guarded(ask: Callable[[], T], otherwise: T) -> T:
    """What `ask` gives; `otherwise` if the author's code that it runs into raises anything."""
    try:
        return ask()
    except BaseException:
        return otherwise


def _message(error: BaseException) -> str:
    said = _guarded(lambda: str(error), "<str() failed>")
    if issubclass(type(error), BaseExceptionGroup):
        group: Any = error
        parts = [
            f"{type(part).__qualname__}: {_guarded(functools.partial(str, part), '<str() failed>')}"
            for part in group.exceptions[:CAUSES]
        ]
        more = len(group.exceptions) - len(parts)
        said += ": " + "; ".join(parts) + (f"; and {more} more" if more else "")
    return said


def _notes(error: BaseException) -> list[str]:
    return [_cut(str(note), MESSAGE_BYTES) for note in getattr(error, "__notes__", ())[:CAUSES]]


def _trace(error: BaseException) -> str:
    """As Python prints it, without locals, and with the nearest causes only."""
    pieces: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    joint = ""
    while cause is not None and id(cause) not in seen and len(seen) < CAUSES:
        seen.add(id(cause))
        formatted = traceback.TracebackException(type(cause), cause, cause.__traceback__, compact=True).format(chain=False)
        pieces.append("".join(formatted) + joint)
        if cause.__cause__ is not None:
            cause, joint = cause.__cause__, "\nThe above exception was the direct cause of the following exception:\n\n"
        elif cause.__suppress_context__:
            cause = None
        else:
            cause, joint = cause.__context__, "\nDuring handling of the above exception, another exception occurred:\n\n"
    return "".join(reversed(pieces))


def _data(error: BaseException) -> dict[str, Any]:
    """`args` and public attributes that are plain JSON, as many as fit."""
    left = DATA_BYTES
    found: dict[str, Any] = {}
    args = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # past an author's own __getattribute__
    for name, value in (("args", list(args)), *_attributes(error)):
        try:
            size = len(json.dumps(value, ensure_ascii=False).encode()) if is_json(value) else DATA_BYTES + 1
        except ValueError:  # half a character
            continue
        if size <= left and name not in found and "\\u0000" not in json.dumps(value):
            found[name] = value
            left -= size
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]  # a copy: the author may go on changing his


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    own = object.__getattribute__(error, "__dict__")
    yield from ((name, value) for name, value in own.items() if type(name) is str and not name.startswith("_"))
    for base in type(error).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("_"):  # __slots__, and OSError.errno
                try:
                    yield name, member.__get__(error)
                except AttributeError:
                    continue


def _code(kind: type) -> str | None:
    if issubclass(kind, FlowError):
        return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()
    return "NON_RETRYABLE" if issubclass(kind, NonRetryable) else None


def _clean(text: str) -> str:
    """What no store takes (half characters, NUL), spelled out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _cut(text: str, limit: int) -> str:
    """Clean, and at most `limit` bytes of UTF-8: head and tail, and between them how much is missing."""
    whole = _clean(text).encode()
    if len(whole) <= limit:
        return whole.decode()
    keep = (limit - 64) // 2
    head, tail = (piece.decode(errors="ignore") for piece in (whole[:keep], whole[-keep:]))
    return f"{head}\n… {len(whole) - 2 * keep:,} bytes left out …\n{tail}"


# Rebuilding


def restore_failure(record: dict[str, Any], step: str, attempts: int) -> StepFailed:
    """The one object that the body gets for a step's final error, live and on replay.

    It also derives from the nearest class in the record's mro that is loaded, derives from Exception and can be combined with
    StepFailed. Nothing is imported, and no `__init__` of an author runs.
    """
    for name in record.get("mro", ()):
        original = _loaded(name)
        if original is None:
            continue
        try:
            failure = _blank(_combined(original))  # type: ignore[arg-type]  # a class is hashable
            _fill(failure, record, step, attempts)
            _set_attributes(failure, record)
            return failure
        except Exception:  # noqa: S112 (the author's metaclass, or a layout that does not combine: the next base will do)
            continue
    return StepFailed(record, step, attempts)


def _loaded(name: str) -> type[Exception] | None:
    """The class `module:qualname`, if its module is loaded and still has it."""
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        try:
            found = vars(found).get(part)  # not getattr: a module's or a metaclass's own would run code
        except TypeError:
            return None
    return found if isinstance(found, type) and issubclass(found, Exception) and found is not Exception else None


@functools.cache
def _combined(original: type[Exception]) -> type[StepFailed]:
    name = original.__name__
    made = type(name, (StepFailed, original), {"__module__": original.__module__, "__qualname__": original.__qualname__})
    assert issubclass(made, StepFailed)
    return made


def _blank(kind: type[StepFailed]) -> StepFailed:
    """An instance made by the nearest `__new__` of Python itself, past any `__new__` and `__init__` of an author."""
    for base in kind.__mro__:
        if isinstance(vars(base).get("__new__"), types.BuiltinFunctionType):
            made: Any = vars(base)["__new__"](kind)
            assert isinstance(made, StepFailed)
            return made
    raise TypeError("no class without a Python-level __new__")


def _set_attributes(failure: StepFailed, record: dict[str, Any]) -> None:
    data = record.get("data") or {}
    BaseException.args.__set__(failure, tuple(data.get("args", (record.get("message", ""),))))  # type: ignore[attr-defined]
    for name, value in data.items():
        if name == "args" or hasattr(StepFailed, name):
            continue
        try:
            object.__setattr__(failure, name, value)  # past a frozen dataclass's own
        except Exception:  # noqa: S112 (a property without setter, a slot that is gone)
            continue
    for note in record.get("notes") or ():
        failure.add_note(note)


# Judging


def retryable(error: BaseException, no_retry: tuple[type[BaseException], ...]) -> bool:
    """Whether another attempt may help: not for programming errors, NonRetryable, `no_retry`, or a group that holds one."""
    never = (*NEVER_HEALS, *no_retry)
    kind = type(error)
    if issubclass(kind, never):
        return False
    if issubclass(kind, StepFailed):  # its class may not have been combinable
        names = {f"{one.__module__}:{one.__qualname__}" for one in never}
        return names.isdisjoint(_filled(error)["record"].get("mro", ()))
    if isinstance(error, BaseExceptionGroup):
        return all(retryable(part, no_retry) for part in error.exceptions)
    return True
