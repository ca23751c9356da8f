"""Errors as records: described whatever they are, rebuilt so that `except` works, judged for a retry."""

import abc
import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, ValidationError

from flowstone.errors import BadData, FlowMisuse, NonRetryable, StorageFailed, ValueRefused
from flowstone.interrupts import Misuse
from flowstone.values.failures import StepFailed, describe, restore_failure, retryable


class Declined(Exception):
    pass


class TwoArguments(Declined):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason
        self._private = 1
        self.client = object()


class Slotted(Exception):
    __slots__ = ("amount",)

    def __init__(self, amount: int) -> None:
        self.amount = amount


@dataclass(frozen=True)
class Frozen(Exception):
    amount: int
    unit: str = "EUR"


class OddNew(Exception):
    def __new__(cls, one: int, two: int) -> "OddNew":
        return super().__new__(cls, one, two)


class Meta(type):
    def __new__(cls, name: str, bases: Any, space: Any, *, token: str) -> Any:
        return super().__new__(cls, name, bases, space)

    def __init__(cls, name: str, bases: Any, space: Any, *, token: str) -> None:
        super().__init__(name, bases, space)


class WithMeta(Declined, metaclass=Meta, token="x"):
    pass


class Registered(Declined):
    seen: list[str] = []  # noqa: RUF012

    def __init_subclass__(cls, **_: Any) -> None:
        Registered.seen.append(cls.__name__)


class ReadOnly(Declined):
    @property
    def step(self) -> str:
        return "mine"

    @property
    def message(self) -> str:
        return "mine"

    def __str__(self) -> str:
        return "mine"


class Abstract(Exception, abc.ABC):
    @abc.abstractmethod
    def nothing(self) -> None: ...


class Concrete(Abstract):
    def nothing(self) -> None: ...


T = TypeVar("T")


class Typed(Exception, Generic[T]):
    pass


class BadStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Model(BaseModel):
    x: int


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def through(error: BaseException) -> StepFailed:
    record = describe(caught(error), attempts=3)
    return restore_failure(json.loads(json.dumps(record)), "charge card", 3)


def test_the_record_says_what_happened() -> None:
    record = describe(caught(TwoArguments(402, "insufficient funds")), attempts=2)
    assert record["type"] == "TwoArguments"
    assert record["module"] == __name__
    assert record["mro"] == [f"{__name__}:TwoArguments", f"{__name__}:Declined"]
    assert record["message"] == "402: insufficient funds"
    assert record["data"] == {"args": ["402: insufficient funds"], "code": 402, "reason": "insufficient funds"}
    assert record["attempts"] == 2
    assert record["code"] is None
    assert "raise error" in record["trace"]
    assert record["trace"].rstrip().endswith("TwoArguments: 402: insufficient funds")


def test_a_step_failed_speaks_for_itself() -> None:
    failure = through(Declined("insufficient funds"))
    assert str(failure) == 'step "charge card" failed: Declined: insufficient funds'
    assert (failure.step, failure.type, failure.message, failure.attempts) == ("charge card", "Declined", "insufficient funds", 3)
    assert failure.data == {"args": ["insufficient funds"]}
    assert "Declined" in failure.trace
    assert str(through(Declined())) == 'step "charge card" failed: Declined'


def values_error() -> Exception:
    try:
        Model.model_validate({"x": "secret"})
    except ValidationError as error:
        return error
    raise AssertionError


RESTORED = [
    (lambda: Declined("x"), Declined),
    (lambda: TwoArguments(1, "x"), TwoArguments),
    (lambda: Slotted(3), Slotted),
    (lambda: Frozen(3), Frozen),
    (lambda: OddNew(1, 2), OddNew),
    (lambda: WithMeta("x"), Declined),
    (lambda: Registered("x"), Registered),
    (lambda: ReadOnly("x"), ReadOnly),
    (lambda: Concrete("x"), Concrete),
    (lambda: Typed("x"), Typed),
    (lambda: FileNotFoundError(2, "No such file", "a.txt"), FileNotFoundError),
    (lambda: ConnectionResetError("x"), OSError),
    (lambda: KeyError("x"), KeyError),
    (lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), UnicodeDecodeError),
    (lambda: ImportError("x", name="m"), ImportError),
    (lambda: StopIteration(3), StopIteration),
    (lambda: SyntaxError("x"), SyntaxError),
    (lambda: subprocess.CalledProcessError(3, ["ls"]), subprocess.CalledProcessError),
    (lambda: values_error(), ValueError),
    (lambda: NonRetryable("x"), NonRetryable),
    (lambda: ValueRefused("x", hint="y"), ValueRefused),
    (lambda: ExceptionGroup("g", [Declined("x")]), StepFailed),
    (lambda: json.JSONDecodeError("x", "doc", 0), json.JSONDecodeError),
    (lambda: TimeoutError(), TimeoutError),
    (lambda: SystemExit(3), StepFailed),
    (lambda: KeyboardInterrupt(), StepFailed),
    (lambda: asyncio.CancelledError(), StepFailed),
    (lambda: GeneratorExit(), StepFailed),
    (lambda: BadStr(), BadStr),
]


@pytest.mark.parametrize(("make", "kind"), RESTORED, ids=lambda case: getattr(case, "__name__", ""))
def test_except_works_on_the_restored_error(make: Any, kind: type[BaseException]) -> None:
    failure = through(make())
    assert isinstance(failure, StepFailed)
    assert isinstance(failure, kind)
    assert isinstance(failure, Exception)
    assert failure.step == "charge card"
    assert str(failure).startswith(f'step "charge card" failed: {failure.type}')
    assert "charge card" in repr(failure)
    assert failure in {failure}
    with pytest.raises(kind):
        raise failure


def test_attributes_come_back() -> None:
    missing: Any = through(FileNotFoundError(2, "No such file", "a.txt"))
    assert (missing.errno, missing.filename, missing.strerror) == (2, "a.txt", "No such file")
    two: Any = through(TwoArguments(402, "funds"))
    assert (two.code, two.reason) == (402, "funds")
    assert not hasattr(two, "client")
    slotted: Any = through(Slotted(3))
    assert slotted.amount == 3
    frozen: Any = through(Frozen(3))
    assert (frozen.amount, frozen.unit) == (3, "EUR")
    key: Any = through(KeyError("x"))
    assert key.args == ("x",)
    process: Any = through(subprocess.CalledProcessError(3, ["ls"], "out"))
    assert (process.returncode, process.cmd) == (3, ["ls"])


def test_a_class_is_made_once_and_not_announced() -> None:
    assert type(through(Declined("a"))) is type(through(Declined("b")))
    through(Registered("x"))
    assert Registered.seen == []


def test_classes_that_are_not_loaded_are_not_imported() -> None:
    record = describe(Declined("x")) | {
        "mro": ["colorsys:NoError", "not_there:Nothing", f"{__name__}:Gone", f"{__name__}:Declined"]
    }
    sys.modules.pop("colorsys", None)
    assert isinstance(restore_failure(record, "s", 1), Declined)
    assert "colorsys" not in sys.modules
    for odd in (
        "os:system",
        "builtins:Exception",
        "builtins:SystemExit",
        "builtins:int",
        "",
        ":",
        "sys:modules.x",
        f"{__name__}:T",
    ):
        assert type(restore_failure(record | {"mro": [odd]}, "s", 1)) is StepFailed


def test_a_local_class_gives_its_nearest_base() -> None:
    class Local(Declined):
        pass

    failure = through(Local("x"))
    assert isinstance(failure, Declined)
    assert failure.type.endswith("Local")


def test_a_failure_that_leaves_the_body_is_described_as_the_original() -> None:
    record = describe(caught(Declined("x")), attempts=3)
    failure = restore_failure(record, "charge card", 3)
    assert describe(caught(failure)) == record
    again = restore_failure(describe(failure), "child", 1)
    assert isinstance(again, Declined)
    assert str(again) == 'step "child" failed: Declined: x'


def test_a_record_of_nothing_still_makes_a_failure() -> None:
    assert str(restore_failure({}, "s", 1)) == 'step "s" failed: Exception'


def test_text_that_no_store_takes_is_spelled_out() -> None:
    record = describe(Declined("a\ud800b\0c"))
    assert record["message"] == "a\\ud800b\\x00c"
    assert record["data"] == {}
    json.dumps(record, ensure_ascii=False).encode()


def test_long_texts_are_cut_in_the_middle() -> None:
    record = describe(Declined("ä" * 20_000 + "END"))
    assert len(record["message"].encode()) <= 8 * 1024
    assert record["message"].startswith("ää")
    assert record["message"].endswith("END")
    assert "bytes left out" in record["message"]
    assert len(record["trace"].encode()) <= 64 * 1024
    assert record["data"] == {}


def test_deep_and_circular_causes_end() -> None:
    error: BaseException = Declined("last")
    for number in range(50):
        cause, error = error, Declined(str(number))
        error.__cause__ = cause
    assert describe(error)["trace"].count("direct cause") == 9
    one, two = Declined("one"), Declined("two")
    one.__cause__, two.__cause__ = two, one
    assert describe(one)["trace"].count("direct cause") == 1


def test_recursion_is_described() -> None:
    def down() -> None:
        down()

    with pytest.raises(RecursionError) as raised:
        down()
    assert "RecursionError" in describe(raised.value)["trace"]


def test_groups_name_their_parts() -> None:
    group = ExceptionGroup("two failed", [Declined("x"), BadStr(), *[ValueError(str(n)) for n in range(20)]])
    message = describe(group)["message"]
    assert message.startswith("two failed (22 sub-exceptions): Declined: x; BadStr: <str() failed>; ValueError: 0")
    assert message.endswith("and 12 more")


def test_describing_never_raises() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise SystemExit

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    record = describe(caught(Hostile("x")))
    assert record["message"] == "<str() failed>"
    json.dumps(record)
    assert isinstance(restore_failure(record, "s", 1), StepFailed)


def test_notes_are_kept() -> None:
    error = Declined("x")
    error.add_note("on Tuesday")
    assert describe(error)["notes"] == ["on Tuesday"]
    assert through(error).__notes__ == ["on Tuesday"]


def test_codes() -> None:
    assert describe(ValueRefused("x"))["code"] == "VALUE_REFUSED"
    assert describe(StorageFailed("x"))["code"] == "STORAGE_FAILED"
    assert describe(type("Mine", (NonRetryable,), {})("x"))["code"] == "NON_RETRYABLE"


@pytest.mark.parametrize(
    "error",
    [
        NonRetryable("x"),
        TypeError("x"),
        NameError("x"),
        UnboundLocalError("x"),
        AttributeError("x"),
        ModuleNotFoundError("x"),
        AssertionError("x"),
        KeyError("x"),
        IndexError("x"),
        ValueError("x"),
        json.JSONDecodeError("x", "", 0),
        FileNotFoundError("x"),
        PermissionError("x"),
        ValueRefused("x"),
        BadData("x"),
        FlowMisuse("x"),
        Misuse("x"),
        SystemExit(1),
        KeyboardInterrupt(),
        ExceptionGroup("g", [OSError("x"), ExceptionGroup("h", [ValueError("x")])]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_heal_is_not_retried(error: BaseException) -> None:
    assert not retryable(error, ())
    assert not retryable(through(error), ()) or isinstance(error, BaseExceptionGroup)


@pytest.mark.parametrize(
    "error",
    [
        Declined("x"),
        OSError("x"),
        ConnectionError("x"),
        TimeoutError("x"),
        RuntimeError("x"),
        asyncio.CancelledError(),
        GeneratorExit(),
        StorageFailed("x"),
        ExceptionGroup("g", [OSError("x")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_heal_is_retried(error: BaseException) -> None:
    assert retryable(error, ())
    assert retryable(through(error), ())
    assert not retryable(error, (type(error),))
    assert not retryable(through(error), (type(error),))


def test_light_rooms_do_not_import_pydantic() -> None:
    code = (
        "import sys, flowstone.values.failures, flowstone.values.duration; assert not [m for m in sys.modules if 'pydantic' in m]"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    plain = """import sys
from flowstone.values.codec import record, restore
assert restore(1, int) == record(1, int).value
assert restore([], list[str]) == record([], list[str]).value
assert "pydantic" not in sys.modules"""
    subprocess.run([sys.executable, "-c", plain], check=True, env=environment)
