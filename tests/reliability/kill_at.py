"""Runs a stage in a process of its own, which breaks for real where it is told to: SIGKILL at a call, a limit, a signal.

Processes fork from a server that has the stages' modules loaded, so that a run costs its own work and no imports.
"""

import hashlib
import importlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
STAGES = ("data", "sft", "rollout", "judge", "sweep", "rl", "evaluate")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", "mlflow", "decord", *(f"tasks.{name}" for name in STAGES)])
SECONDS = 240
"""Longest time that a stage may take before it counts as hanging."""


@dataclass(frozen=True)
class Kill:
    """SIGKILL to the process itself at a call of a function."""

    target: str
    """`module:name` or `module:class.name`, where the caller looks it up."""
    call: int = 1
    """The number of the call, from 1."""
    after: bool = False
    """Whether the call is made before the process dies."""

    def __call__(self) -> None:
        wrap(self.target, self._dying)

    def _dying(self, function: Callable[..., Any], number: int, *args: Any, **kwargs: Any) -> Any:
        if number == self.call and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if number == self.call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


@dataclass(frozen=True)
class Count:
    """Adds a line to a file at each call of a function, before it is made."""

    target: str
    path: Path

    def __call__(self) -> None:
        wrap(self.target, self._counting)

    def _counting(self, function: Callable[..., Any], _: int, *args: Any, **kwargs: Any) -> Any:
        with self.path.open("a") as out:
            out.write(f"{hashlib.sha256(repr(args[1:]).encode()).hexdigest()}\n")
        return function(*args, **kwargs)


@dataclass(frozen=True)
class Limit:
    """A limit of the system, set at a call of a function: `RLIMIT_FSIZE` or `RLIMIT_AS`, in bytes beyond what is used."""

    target: str
    kind: int
    room: int

    def __call__(self) -> None:
        wrap(self.target, self._limited)

    def _limited(self, function: Callable[..., Any], number: int, *args: Any, **kwargs: Any) -> Any:
        if number == 1:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            used = pages * os.sysconf("SC_PAGE_SIZE") if self.kind == resource.RLIMIT_AS else 0
            resource.setrlimit(self.kind, (used + self.room, resource.RLIM_INFINITY))
        return function(*args, **kwargs)


@dataclass(frozen=True)
class Signal:
    """A signal to the process itself at a call of a function, which is then made."""

    target: str
    number: int
    call: int = 1

    def __call__(self) -> None:
        wrap(self.target, self._signalled)

    def _signalled(self, function: Callable[..., Any], number: int, *args: Any, **kwargs: Any) -> Any:
        if number == self.call:
            os.kill(os.getpid(), self.number)
        return function(*args, **kwargs)


def wrap(target: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around(function, number of the call, *args, **kwargs)`."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *owners, name = path.split(".")
    for part in owners:
        owner = getattr(owner, part)
    function, calls = getattr(owner, name), 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return around(function, calls, *args, **kwargs)

    setattr(owner, name, wrapped)


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit status (negative: the signal) and what it printed."""

    status: int
    said: str


def start(folder: Path, words: str, faults: Sequence[Callable[[], None]] = ()) -> ForkServerProcess:
    """Start a stage (`rl turnwise 0`) in a folder, with faults to set up first; `said` finds what it says."""
    serve()
    process = CONTEXT.Process(target=_run, args=(folder, words.split(), faults))
    process.start()
    return process


def stage(folder: Path, words: str, *faults: Callable[[], None]) -> Ended:
    """Run a stage to its end, or fail where it hangs."""
    process = start(folder, words, faults)
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"{words}: hangs: {said(folder)[-2000:]}")
    return Ended(process.exitcode, said(folder))


def said(folder: Path) -> str:
    """What the last stage in a folder printed; it is kept beside the folder, which may be full."""
    return _said(folder).read_text()


def _said(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.said")


def serve() -> None:
    """The server of processes takes its paths and threads from the environment it is started with."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # as tracking.py has it before the import
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    )


def _run(folder: Path, words: list[str], faults: Sequence[Callable[[], None]]) -> None:
    from tasks.common import run

    os.chdir(folder)
    out = os.open(_said(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = [f"tasks/{words[0]}.py", *words[1:]]
    for fault in faults:
        fault()
    run(importlib.import_module(f"tasks.{words[0]}").main)


def outputs(words: str) -> list[str]:
    """Paths that dvc.yaml declares for a stage (`rl turnwise 0`)."""
    name, *values = words.split()
    name = "evaluate_sft" if values[:1] == ["sft"] else name
    entry = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][name]
    listed = [*entry.get("outs", []), *entry.get("metrics", [])]
    paths = [out if isinstance(out, str) else next(iter(out)) for out in listed]
    arm, seed = (["", *values] if len(values) == 1 else values) or ["", ""]
    return [path.replace("${item.arm}", arm).replace("${item.seed}", seed) for path in paths]


def contents(folder: Path, words: str) -> dict[str, bytes]:
    """The bytes of every file of a stage's outputs that is there."""
    tops = [folder / path for path in outputs(words)]
    files = [file for top in tops for file in ([top] if top.is_file() else sorted(top.rglob("*"))) if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def leftovers(folder: Path) -> list[str]:
    """Scratch files of writers, anywhere in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.part*"))
