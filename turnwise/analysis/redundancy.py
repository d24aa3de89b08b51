"""What advantage the replies judged repeated get under each rule. The denominator is the repeated replies alone.

A larger negative share says that more of the repeats are pushed down; it does not say that there are fewer repeats.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from turnwise.analysis.cells import Cell, by_arm, share, values
from turnwise.analysis.published import REDUNDANCY

RULES = {"global": "advantage_global", "turn": "advantage_turn"}


def tally(decisions: pa.Table) -> dict[str, int]:
    """Counts over a decision table: repeated replies by the sign of each rule's advantage. They add up over cells."""
    repeats = decisions.filter(pc.field("repeat"))
    counted = repeats.filter(pc.is_valid(repeats["flipped"]))
    counts = {"replies": len(counted), "dropped_replies": len(repeats) - len(counted)}
    for rule, column in RULES.items():
        advantages = values(counted, column)
        counts[f"negative_{rule}_count"] = int((advantages < 0).sum())
        counts[f"zero_{rule}_count"] = int((advantages == 0).sum())
    return counts


def with_shares(counts: dict[str, int]) -> dict[str, Any]:
    """The shares of negative advantages among the repeated replies under each rule, then the counts."""
    shares = {f"negative_{rule}": share(counts[f"negative_{rule}_count"], counts["replies"]) for rule in RULES}
    return {**shares, **counts}


def redundancy(cells: Iterable[Cell], main: str) -> dict[str, Any]:
    """The content of redundancy.json: every arm pooled and by seed, with the paper's values as published."""
    return {"published": REDUNDANCY, "main": main, "arms": by_arm(cells, tally, with_shares)}
