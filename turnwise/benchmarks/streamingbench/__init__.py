"""StreamingBench: multiple choice about the stream so far (RTVU), and output at the right moment (PO)."""

from typing import Any

from turnwise.benchmarks.streamingbench.load import (
    CONTEXT,
    FOLDER,
    GRACE,
    POLL,
    SUBSETS,
    Asked,
    choice_prompt,
    episode,
    load,
    poll_episode,
    poll_times,
)
from turnwise.benchmarks.streamingbench.score import parts, score, share

NAME = "streamingbench"
GROUPS = tuple((subset,) for subset in SUBSETS)
"""The headline is the mean over groups of the mean over the subsets of a group."""

__all__ = [
    "CONTEXT",
    "FOLDER",
    "GRACE",
    "GROUPS",
    "NAME",
    "POLL",
    "SUBSETS",
    "Asked",
    "choice_prompt",
    "episode",
    "load",
    "parts",
    "poll_episode",
    "poll_times",
    "protocol",
    "score",
    "share",
]


def protocol(*, tolerance: float) -> dict[str, Any]:
    """The choices that a score depends on."""
    return {
        "rtvu": "first letter of the reply to the question; silence is wrong",
        "po": "joint: first reply in time and holding the target text",
        "tolerance": tolerance,
        "aggregation": "mean of RTVU accuracy and PO joint accuracy, each over questions",
    }
