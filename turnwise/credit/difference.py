"""Difference rewards: a turn is paid for what it changed, against silence in its place and after it.

The increment U[t] - U[t-1] is a difference reward (Wolpert and Tumer, "Optimal payoff functions for members of
collectives", 2002) whose default action is silence for the rest of the episode.
"""

import numpy as np

from turnwise.credit.base import Credit, ZeroSpread, divided, register, spread
from turnwise.records import Group


@register("difference")
def difference(
    group: Group, *, eps: float = 1e-6, ddof: int = 1, a_max: float = 5.0, zero_spread: ZeroSpread = "drop"
) -> Credit:
    """A[i, t] = clip((d[i, t] - mean_j d[j, t]) / (sigma_R + eps), -a_max, a_max) with d[t] = U[t] - U[t-1].

    A turn learns nothing of what it made possible or spoilt later: biased wherever turns depend on each other.

    Args:
        group: prefix scores [..., G, T + 1].
        eps: reward units. ddof: of sigma_R. a_max: clip. zero_spread: see `spread`.

    Raises:
        ValueError: a group that `checked` or `spread` refuses, with its index.
    """
    parts = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    return divided(centred_increments(group), group, parts, a_max)


def centred_increments(group: Group) -> np.ndarray:
    """U[t] - U[t-1] less its mean over the group at that turn [..., G, T], a new array."""
    increments = np.diff(group.scores, axis=-1)
    increments -= increments.mean(-2, keepdims=True)
    return increments
