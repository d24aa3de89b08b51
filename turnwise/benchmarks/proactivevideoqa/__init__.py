"""ProactiveVideoQA (arXiv 2507.09313): does a policy say what is wanted when it is wanted, and only once."""

from typing import Any

from turnwise.benchmarks.proactivevideoqa.load import FOLDER, SUBSETS, Question, episode, load
from turnwise.benchmarks.proactivevideoqa.score import drop_late, grades, parts, score, share
from turnwise.config import BENCHMARK_LEVELS

NAME = "proactivevideoqa"
GROUPS = tuple((subset,) for subset in SUBSETS)
"""The headline is the mean over groups of the mean over the subsets of a group."""

__all__ = [
    "FOLDER",
    "GROUPS",
    "NAME",
    "SUBSETS",
    "Question",
    "drop_late",
    "episode",
    "grades",
    "load",
    "parts",
    "protocol",
    "score",
    "share",
]


def protocol(*, judge: str, omega: float, drop_items: bool = False) -> dict[str, Any]:
    """The choices that a score depends on."""
    return {
        "judge": judge,
        "levels": BENCHMARK_LEVELS,
        "judged": "accumulated distinct replies",
        "omega": omega,
        "abstention": f"the {'item' if drop_items else 'point'} is dropped",
        "aggregation": "mean over the turns of a subset, plain mean over subsets",
        "repetition": "repeats among replies that are not the first in a window, all subsets together",
    }
