"""How often turn-level credit turns the sign of a decision's advantage, against GRPO's one advantage a trajectory.

A decision is flipped where A_global and A_turn (alpha = 1) have opposite signs; a zero never flips. Decisions of groups
dropped for zero spread, where `flipped` is null, have no advantage: they are counted apart and in no share.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from turnwise.analysis.cells import Cell, by_arm, share, values
from turnwise.analysis.published import SIGN_FLIPS


def tally(decisions: pa.Table) -> dict[str, int]:
    """Counts over a decision table, sorted by its key. They add up over cells.

    `mixed`: trajectories with at least one positive and one negative A_turn.
    """
    counted = decisions.filter(pc.is_valid(decisions["flipped"]))
    flipped, later = values(counted, "flipped", False), values(counted, "turn") >= 2
    total, by_turn = values(counted, "advantage_global"), values(counted, "advantage_turn")
    starts = np.flatnonzero(~later)
    signs = [np.logical_or.reduceat(side, starts) if len(starts) else side for side in (by_turn > 0, by_turn < 0)]
    counts = {
        "decisions": len(counted),
        "flipped": flipped.sum(),
        "later_decisions": later.sum(),
        "trajectories": len(starts),
        "mixed": (signs[0] & signs[1]).sum(),
        "zero_global": (total == 0).sum(),
        "zero_turn": (by_turn == 0).sum(),
        "dropped_decisions": len(decisions) - len(counted),
    }
    return {name: int(count) for name, count in counts.items()}


def with_shares(counts: dict[str, int]) -> dict[str, Any]:
    """The shares of a tally, then its counts. `flip_share` is over all turns, as the paper counts."""
    return {
        "flip_share": share(counts["flipped"], counts["decisions"]),
        "flip_share_after_turn_1": share(counts["flipped"], counts["later_decisions"]),
        "mixed_share": share(counts["mixed"], counts["trajectories"]),
        **counts,
    }


def sign_flips(cells: Iterable[Cell], main: str) -> dict[str, Any]:
    """The content of sign_flips.json: every arm pooled and by seed, with the paper's values as published."""
    return {"published": SIGN_FLIPS, "main": main, "arms": by_arm(cells, tally, with_shares)}
