"""What is asked of a judge and what it answers: a verdict or an abstention, never a made-up score."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Grade:
    """One thing to be judged. Equal grades get equal verdicts, which is what the cache relies on."""

    kind: Literal["level", "repeat", "dialogue"]
    """`level`: how well the reply says the reference. `repeat`: whether it says only what was said before.
    `dialogue`: how many checkpoints of a rubric the replies so far meet."""
    question: str
    reference: str
    """`level`: the expected answer. `repeat`: the earlier replies, one a line. `dialogue`: all expected
    answers, one a line with the second at which it is due."""
    reply: str
    """`dialogue`: all replies so far, one a line with its second."""
    levels: int
    """Scores are 0..levels-1; 2 for `repeat` (1 repeats), one more than there are checkpoints for `dialogue`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A score, or None with the cause of the abstention."""

    score: float | None
    cause: str | None = None


class Judge(Protocol):
    """Whoever grades. One of your own may inherit from this class and leave `grade_all` as it is."""

    name: str
    """Shown with every score."""
    version: str
    """Changes with everything, beside the grade itself, that can change a verdict; the cache goes by it."""

    async def grade(self, item: Grade) -> Verdict:
        """The verdict on one item; a failure is an abstention, not an exception."""

    async def grade_all(self, items: Sequence[Grade], done: Callable[[Grade, Verdict], None]) -> None:
        """Call `done` with the verdict on each item, once, in any order, as soon as it is there.

        This way is one item after the other; a judge that waits for a server says so by a method of its own.
        """
        for item in items:
            done(item, await self.grade(item))


class Verdicts(Protocol):
    """Where verdicts come from: the cache."""

    def grade_all(self, judge: Judge, items: Sequence[Grade]) -> list[Verdict]:
        """Verdicts of `judge` in the order of `items`."""


def abstentions(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many verdicts are missing, by cause, the most frequent first."""
    return dict(Counter(verdict.cause or "unknown" for verdict in verdicts if verdict.score is None).most_common())
