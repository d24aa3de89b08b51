"""Progress of long work and what happens on the way: a bar on a terminal; lines of JSON where a stage runs without one.

The flow reads a stage's lines. Elsewhere (a command whose output is redirected, a library call) only events are told, on
standard error.
"""

import json
import sys
import time
from contextvars import ContextVar
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

STAGE: ContextVar[bool] = ContextVar("stage", default=False)
"""Whether this process is a stage, whose standard output is progress and events alone."""


class Bar:
    """One counted piece of work. Use as a context manager; `advance` also carries figures to show (latest wins)."""

    def __init__(self, label: str, total: int, *, every: float = 1.0, patience: float = 0.0):
        """A line of JSON at most each `every` seconds; nothing at all for work that is done within `patience` seconds."""
        self.label, self.total, self.done = label, total, 0
        self._every, self._patience = every, patience
        self._last, self._start = float("-inf"), time.monotonic()
        self._rich: Progress | None = None

    def __enter__(self) -> "Bar":
        if sys.stderr.isatty() and (sys.stdout.isatty() or not STAGE.get()):
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                _Rate(),
                TimeElapsedColumn(),
            )
            figures = TextColumn("{task.fields[figures]}")
            self._rich = Progress(*columns, TimeRemainingColumn(), figures, console=Console(stderr=True))
            self._rich.add_task(self.label, total=self.total, figures="")
            if not self._patience:
                self._rich.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._rich:
            self._rich.stop()

    def advance(self, n: int = 1, **figures: float | str | None) -> None:
        """Count n more done; off a terminal a stage prints at most one line each `every` seconds, and always the last."""
        self.done += n
        now = time.monotonic()
        if now - self._start < self._patience:
            return
        if self._rich:
            shown = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
            self._rich.start()
            self._rich.update(self._rich.task_ids[0], completed=self.done, figures=shown)
        elif STAGE.get() and (self.done >= self.total or now - self._last >= self._every):
            self._last = now
            seconds = round(now - self._start, 1)
            emit("progress", label=self.label, done=self.done, total=self.total, seconds=seconds, **figures)


class _Rate(ProgressColumn):
    """How many a second, or how many seconds each."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:.3g}/s" if speed >= 1 else f"{1 / speed:.3g} s each")


def emit(event: str, **fields: Any) -> None:
    """Tell of an event: a stage prints the line {"event": ..., fields}, anything else a sentence on standard error."""
    if STAGE.get():
        print(json.dumps({"event": event, **fields}), flush=True)
    else:
        told = fields.get("message") or ", ".join(f"{name} {value}" for name, value in fields.items())
        print(f"{event}: {told}", file=sys.stderr, flush=True)
