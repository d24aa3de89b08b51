"""How far two judges agree on the same items. Pure numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from turnwise.records import Float


def kappa(table: Float, *, weighted: bool = False) -> float | None:
    """Cohen's kappa of counts [L, L]: agreement beyond chance, 1 at most; None where chance alone agrees in full.

    Weighted: a disagreement counts by the square of its distance in levels (J. Cohen, 1960 and 1968).
    """
    levels = np.arange(len(table))
    distance = np.abs(levels[:, None] - levels)
    cost = distance**2 if weighted else (distance > 0).astype(float)
    chance = np.outer(table.sum(1), table.sum(0)) / max(1.0, table.sum())
    expected = float((cost * chance).sum())
    return 1 - float((cost * table).sum()) / expected if expected else None


def agreement(a: Sequence[float | None], b: Sequence[float | None], levels: int) -> dict[str, Any]:
    """Agreement of two judges on the same items: scores 0..levels-1 each, None for an abstention.

    Only items that both scored are compared; `by_level` says of each level of the first judge how often the second gave
    the same, and `table[i][j]` how often the first gave i and the second j.
    """
    table = np.zeros((levels, levels))
    for one, other in zip(a, b, strict=True):
        if one is not None and other is not None:
            table[int(one), int(other)] += 1
    both = int(table.sum())
    given = table.sum(1)
    return {
        "items": len(a),
        "both": both,
        "abstained": [sum(score is None for score in scores) for scores in (a, b)],
        "agreement": float(np.trace(table)) / both if both else None,
        "kappa": kappa(table),
        "weighted_kappa": kappa(table, weighted=True),
        "means": [float(np.arange(levels) @ table.sum(axis)) / both if both else None for axis in (1, 0)],
        "by_level": [float(table[i, i] / given[i]) if given[i] else None for i in range(levels)],
        "table": table.astype(int).tolist(),
    }
