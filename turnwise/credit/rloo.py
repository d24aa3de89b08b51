"""RLOO: the baseline of a trajectory is the mean reward of the others (arXiv 2402.14740)."""

import math

from turnwise.credit.base import Credit, broadcast, register
from turnwise.credit.dr_grpo import dr_grpo
from turnwise.records import Group


@register("rloo")
def rloo(group: Group, *, a_max: float = math.inf) -> Credit:
    """A[i, t] = clip(R[i] - mean of R[j] over j != i, -a_max, a_max) for every turn t: reward units, and so is a_max.

    That is G / (G - 1) (R[i] - mean R), which is how it is computed: unbiased where GRPO's mean, which holds R[i]
    itself, shrinks the expected gradient by (G - 1) / G.

    Args:
        group: prefix scores [..., G, T + 1]; only R and the number of turns matter.

    Raises:
        ValueError: a group that `checked` refuses, with its index.
    """
    size, turns = group.scores.shape[-2], group.scores.shape[-1] - 1
    plain = dr_grpo(group)
    return broadcast(plain.total * (size / (size - 1)), turns, a_max, plain.live)
