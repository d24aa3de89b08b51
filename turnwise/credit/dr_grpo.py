"""Dr. GRPO: GRPO without the division by the standard deviation (arXiv 2503.20783)."""

import math

import numpy as np

from turnwise.credit.base import Credit, broadcast, equal, register, settled
from turnwise.records import Group


@register("dr_grpo")
def dr_grpo(group: Group, *, a_max: float = math.inf) -> Credit:
    """A[i, t] = clip(R[i] - mean R, -a_max, a_max) for every turn t: in reward units, and so is a_max.

    Its loss goes with an aggregation that divides by no sampled length, too: `seq-mean-token-sum` (objective.py).

    Args:
        group: prefix scores [..., G, T + 1]; only R and the number of turns matter.

    Raises:
        ValueError: a group that `checked` refuses, with its index.
    """
    rewards, flat = group.rewards, equal(group.rewards)
    deviation = np.where(flat[..., None], 0.0, rewards - rewards.mean(-1, keepdims=True))
    return broadcast(settled(deviation, group.scores), group.scores.shape[-1] - 1, a_max, ~flat)
