"""A second judge that needs no model: harder to please than `rule`, and wrong now and then, as judges are.

Its noise is drawn from a hash of the item, so that the same question always gets the same answer.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from turnwise.judging import rules
from turnwise.judging.base import Grade, Judge, Verdict

LEVEL_NOISE = 0.15
"""Share of levels, and of counts of checkpoints, that stand one off, up or down."""
REPEAT_NOISE = 0.05
"""Share of repeats that are answered the wrong way."""


class StrictJudge(Judge):
    """Scores by the Jaccard index of the informative words, and calls new wordings of old facts repeats; with noise."""

    def __init__(self, levels: int):
        """`levels` of the rubric it is configured with: part of its name. A grade brings its own."""
        self.name = f"strict-{levels}"
        sources = b"".join(Path(file).read_bytes() for file in (__file__, rules.__file__))
        self.version = f"strict@{hashlib.sha256(sources).hexdigest()[:12]}"

    async def grade(self, item: Grade) -> Verdict:
        """Always a score."""
        draw, up = _draws(item)
        if item.kind == "repeat":
            return Verdict(float(repeats(item.reply, item.reference) ^ (draw < REPEAT_NOISE)))
        off = (draw < LEVEL_NOISE) * (1 if up else -1)
        if item.kind == "dialogue":
            score = rules.dialogue(item.reply, item.reference)
        else:
            score = level(item.reply, item.reference, item.levels)
        return Verdict(float(min(max(score + off, 0), item.levels - 1)))


def level(reply: str, reference: str, levels: int) -> int:
    """0..levels-1: informative words of both reply and reference over those of either, times levels - 1, rounded down.

    A wrong word costs more than under `rule`: one right and one wrong of two expected is 1 of 0..4, not 2.
    """
    said, expected = rules.content(reply), rules.content(reference)
    return len(said & expected) * (levels - 1) // max(1, len(said | expected))


def repeats(reply: str, earlier: str) -> bool:
    """Whether the earlier replies (the lines of `earlier`) together say every informative word of the reply."""
    return rules.content(reply) <= frozenset[str]().union(*map(rules.content, earlier.splitlines()))


def _draws(item: Grade) -> tuple[float, bool]:
    """A number in [0, 1) and a coin, from the item alone."""
    digest = hashlib.sha256(json.dumps(asdict(item), sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:7]) / 256**7, digest[7] % 2 == 0
