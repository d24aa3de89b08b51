"""What is asked of a judge and what it answers: a verdict or an abstention, never a made-up score."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Grade:
    """One thing to be judged. Equal grades get equal verdicts, which is what the cache relies on."""

    kind: Literal["level", "repeat"]
    """`level`: how well the reply says the reference. `repeat`: whether it says only what was said before."""
    question: str
    reference: str
    """`level`: the expected answer. `repeat`: the earlier replies, one a line."""
    reply: str
    levels: int
    """Scores are 0..levels-1; 2 for `repeat` (1 repeats)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A score, or None with the cause of the abstention."""

    score: float | None
    cause: str | None = None


class Judge(Protocol):
    """Whoever grades."""

    @property
    def name(self) -> str:
        """Shown with every score."""

    @property
    def version(self) -> str:
        """Changes with everything, beside the grade itself, that can change a verdict; the cache goes by it."""

    async def grade(self, item: Grade) -> Verdict:
        """The verdict on one item; a failure is an abstention, not an exception."""
