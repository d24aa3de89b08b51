"""Progress of long work: a bar on a terminal, JSON lines on standard output elsewhere (the flow reads those)."""

import json
import sys
import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """One counted piece of work. Use as a context manager; `advance` also carries figures to show (latest wins)."""

    def __init__(self, label: str, total: int, *, every: float = 1.0):
        self.label, self.total, self.done = label, total, 0
        self._every, self._last, self._start = every, float("-inf"), time.monotonic()
        self._rich: Progress | None = None

    def __enter__(self) -> "Bar":
        if sys.stdout.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._rich = Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
            self._rich.start()
            self._rich.add_task(self.label, total=self.total, figures="")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._rich:
            self._rich.stop()

    def advance(self, n: int = 1, **figures: float | str | None) -> None:
        """Count n more done; print at most one line each `every` seconds, and always the last one."""
        self.done += n
        if self._rich:
            shown = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
            self._rich.update(self._rich.task_ids[0], completed=self.done, figures=shown)
            return
        now = time.monotonic()
        if self.done >= self.total or now - self._last >= self._every:
            self._last = now
            seconds = round(now - self._start, 1)
            emit("progress", label=self.label, done=self.done, total=self.total, seconds=seconds, **figures)


def emit(event: str, **fields: Any) -> None:
    """Print one JSON line: {"event": ..., fields}."""
    print(json.dumps({"event": event, **fields}), flush=True)
