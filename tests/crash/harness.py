"""Attacks every write of a command: counts its write-side system calls, then makes each of them the last, or one that fails."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from crash import judge
from crash.judge import Violation, holds
from crash.shapes import SOURCE, Shape
from crash.warm import NICE, Ended, Warm

CALLS = (
    "write,pwrite64,writev,pwritev,fdatasync,fsync,ftruncate,fallocate,unlink,unlinkat,rename,renameat,renameat2,"
    "mkdir,mkdirat,link,linkat,symlink,utimensat,chmod,fchmod,openat"
)
FAULTS = ("KILL", "EIO", "ENOSPC")
EFFECT = "writev"
"""The call by which a step has its effect: only killed at, since a step that fails is no fault of our disk."""
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)")


_TRACED = (
    "import ctypes, sys; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0); print(1, flush=True); sys.stdin.read()"
)
"""A process that lets anybody trace it, as those of warm.py do."""


def refusal() -> str | None:
    """Why calls cannot be attacked here; None if they can."""
    program = shutil.which("strace")
    if program is None:
        return "strace is not installed"
    with subprocess.Popen([sys.executable, "-c", _TRACED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        command = [program, "-o", "/dev/null", "-p", str(process.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline().decode()
            process.communicate()
    return None if "attached" in said else f"strace may not trace here: {said.strip()}"


class Point(NamedTuple):
    """The `number`th call of that name by one thread of the command."""

    call: str
    number: int


@dataclass(frozen=True)
class Fault:
    """What happens at a point."""

    kind: str
    point: Point

    def __str__(self) -> str:
        return f"{self.kind} at {self.point.call} {self.point.number}"

    @property
    def injection(self) -> str:
        """As strace wants it."""
        what = "signal=KILL" if self.kind == "KILL" else f"error={self.kind}"
        return f"{self.point.call}:{what}:when={self.point.number}"


class Scene:
    """A shape, prepared once; each fault meets a copy of it."""

    def __init__(self, warm: Warm, folder: Path, shape: Shape) -> None:
        self._warm = warm
        self._folder = folder
        self.shape = shape
        self._template = folder / "template"
        (self._template / "workflows").mkdir(parents=True)
        (self._template / "workflows" / "work.py").write_text(SOURCE)
        (self._template / "effects").touch()
        for words in shape.before:
            warm.flow(self._template, *words)
        self._earlier = len(judge.read(self._template)) if shape.words[0] == "run" else 0
        if shape.words[0] == "run":
            (self._template / "effects").write_bytes(b"")
        if shape.fixed:
            (self._template / "fixed").touch()

    def points(self) -> list[Point]:
        """Every write-side call of the command, counted on an undisturbed one, which is judged too."""
        root = self._copy("counted")
        log = self._folder / "log"
        ended = self._traced(root, log)
        self._judge(root, ended, 0)
        seen: dict[str, dict[str, int]] = {}
        points: set[Point] = set()
        for line in log.read_text(errors="replace").splitlines():
            if found := _CALL.match(line):
                thread, call, rest = found.groups()
                counts = seen.setdefault(thread, {})
                counts[call] = counts.get(call, 0) + 1
                if call in CALLS.split(",") and (call != "openat" or "O_CREAT" in rest):
                    points.add(Point(call, counts[call]))
        holds(points, f"no writes seen: {log.read_text()}")
        return sorted(points)

    def meet(self, fault: Fault) -> bool:
        """Let the command meet a fault, recover as a person would, and judge. False if the fault did not come about."""
        root = self._copy("attacked")
        log = self._folder / "log"
        ended = self._traced(root, log, fault.injection)
        text = log.read_text(errors="replace")
        try:
            self._judge(root, ended, 1)
        except Violation as violation:
            raise Violation(f"{fault}: {violation}\nexit {ended.code}, stderr:\n{ended.err}\nin {root}") from None
        return "(INJECTED)" in text or "killed by SIGKILL" in text

    def _copy(self, name: str) -> Path:
        root = self._folder / name
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self._template, root)
        return root

    def _traced(self, root: Path, log: Path, *injections: str) -> Ended:
        command = self._warm.start(root, *self.shape.words, traced=True)
        wanted = [f"inject=getpriority:retval={20 - NICE}", *(f"inject={one}" for one in injections)]
        expressions = [word for one in (f"trace={CALLS},getpriority", *wanted) for word in ("-e", one)]
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", str(log), *expressions, "-p", str(command.pid)],
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        ended = command.wait()
        tracer.wait(60)
        return ended

    def _judge(self, root: Path, ended: Ended, faults: int) -> None:
        shape = self.shape
        found = self._run(root)
        done = shape.words[0] == "run" and not shape.answers
        judge.exit_code_fits(ended.code, ended.out, ended.err, found, shape.output, done)
        holds(ended.code != 0 or not done or found is not None, "exit 0, and there is no run")
        if found is not None:
            self._consistent(root)
        self._bring_to_its_end(root)
        self._consistent(root)
        found = self._run(root)
        holds(found is not None and found.status == shape.status, f"the run is {found and found.status} at last")
        judge.at_least_once(judge.effects_of(root), shape.effects, shape.chain, faults)

    def _bring_to_its_end(self, root: Path) -> None:
        """At most two sweeps, and what a person types when the run waits; the command itself again if there is no run."""
        if self._run(root) is None:
            self._again(root, *self.shape.words)
        for _ in range(2):
            if self._ended(root):
                return
            self._again(root, "recover")
        for words in self.shape.answers:
            if self._ended(root):
                return
            self._again(root, *words)

    def _again(self, root: Path, *words: str) -> None:
        ended = self._warm.flow(root, *words)
        holds(ended.code in (0, 1, 3, 8), f"flow {' '.join(words)} then: exit {ended.code}: {ended.err}")

    def _ended(self, root: Path) -> bool:
        run = self._run(root)
        return run is not None and run.status == self.shape.status

    def _run(self, root: Path) -> "judge.RunRow | None":
        runs = [row for row, _ in judge.read(root) if row.parent_run is None][self._earlier :]
        return runs[0] if runs else None

    def _consistent(self, root: Path) -> None:
        for row, events in judge.read(root):
            judge.consistent(row, events)


def attack(
    scene: Scene, kinds: tuple[str, ...] = FAULTS, *, every: int = 1, first: int = 0
) -> Iterator[tuple[Fault, bool, Violation | None]]:
    """Each fault at each point (or at one in `every` from the `first` on), whether it came about, and what it broke."""
    points = scene.points()[first::every]
    for fault in [Fault(kind, point) for kind in kinds for point in points]:
        if fault.kind == "KILL" or fault.point.call != EFFECT:
            try:
                came = scene.meet(fault)
            except Violation as violation:
                yield fault, True, violation
            else:
                yield fault, came, None
