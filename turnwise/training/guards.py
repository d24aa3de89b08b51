"""What is watched while a policy learns: steps that would spoil it, behaviour that has collapsed, time that stands still."""

import faulthandler
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from turnwise.errors import UserError

Figures = Mapping[str, float | None]

SIGNS: dict[str, tuple[str, Callable[[float], bool], str]] = {
    "silence": ("reply_rate", lambda rate: rate < 0.02, "the policy hardly speaks"),
    "chatter": ("reply_rate", lambda rate: rate > 0.9, "the policy speaks at nearly every decision"),
    "repetition": ("repeat_share", lambda share: share > 0.8, "most replies say what was said before"),
    "no_spread": (
        "zero_spread_share",
        lambda share: share == 1,
        "no group has any spread of rewards: nothing was learnt",
    ),
    "entropy": ("entropy", lambda nats: nats < 0.01, "the policy hardly varies: later groups will have no spread"),
}
"""Name of a warning -> the figure it looks at, when it is given, and what it means."""


class Diverged(UserError):
    """Too many optimizer steps in a row had a loss or gradient that is not finite."""


def warnings_of(figures: Figures) -> list[str]:
    """Names of `SIGNS` that an update's figures show; a figure that is None shows nothing."""
    values = {name: figures[sign[0]] for name, sign in SIGNS.items()}
    return [name for name, value in values.items() if value is not None and SIGNS[name][1](value)]


def explain(name: str, figures: Figures) -> str:
    """A warning as a sentence: `chatter: reply_rate 0.95: the policy speaks at nearly every decision`."""
    figure, _, meaning = SIGNS[name]
    return f"{name}: {figure} {figures[figure]:.3g}: {meaning}"


class Watchdog:
    """Prints the stacks of all threads, once, when a block takes ten times the median of the blocks before it."""

    def __init__(self, *, times: float = 10.0, least: float = 60.0, out: TextIO = sys.stderr):
        """`times` the median, but never before `least` seconds; `out` must have a file descriptor."""
        self._times, self._least, self._out = times, least, out
        self._seconds: list[float] = []

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch a block; the first one is only timed."""
        if self._seconds:
            limit = max(self._least, self._times * statistics.median(self._seconds))
            faulthandler.dump_traceback_later(limit, file=self._out)
        start = time.monotonic()
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
        self._seconds.append(time.monotonic() - start)
