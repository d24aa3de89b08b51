"""TurnWise: a decision is not paid for what stood before it (arXiv 2611.06728, silence-completed prefix scoring)."""

import math

import numpy as np

from turnwise.credit.base import Credit, ZeroSpread, divided, register, spread
from turnwise.records import Group


@register("turnwise")
def turnwise(
    group: Group,
    *,
    alpha: float = 1.0,
    eps: float = 1e-6,
    ddof: int = 1,
    a_max: float = 5.0,
    zero_spread: ZeroSpread = "drop",
) -> Credit:
    """A[i, t] = clip(A_global[i] - alpha (C[i, t-1] - mean_j C[j, t-1]) / (sigma_R + eps), -a_max, a_max).

    C[i, t-1] = U[i, t-1] - U[i, 0] is what trajectory i had earned before turn t. Before the clip this is
    (1 - alpha) A_global + alpha (F[i, t] - mean_j F[j, t]) / (sigma_R + eps) with F = R - U[t-1], what remained.
    Turn 1 has GRPO's advantage, and alpha = 0 is GRPO bit for bit.

    Args:
        group: prefix scores [..., G, T + 1].
        alpha: 0 to 1 (no unit). eps: reward units. ddof: of sigma_R. a_max: clip. zero_spread: see `spread`.

    Raises:
        ValueError: a group that `checked` or `spread` refuses, with its index.
    """
    parts = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    turn = group.earned
    turn -= turn.mean(-2, keepdims=True)
    turn *= alpha
    np.subtract(parts[0][..., None], turn, out=turn)
    return divided(turn, group, parts, a_max)


def alpha_at(update: int, updates: int, warmup: float, alpha: float) -> float:
    """alpha of update 1..U: `alpha * min(1, (update - 1) / max(1, ceil(warmup * U)))`; `warmup` is a share of U.

    The product is rounded to 9 decimals first, since 0.07 * 100 is a little above 7 in floating point.
    """
    steps = max(1, math.ceil(round(warmup * updates, 9)))
    return alpha * min(1.0, (update - 1) / steps)
