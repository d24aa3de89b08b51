"""GRPO: one advantage a trajectory, given to each of its decisions (DeepSeekMath, arXiv 2402.03300, section 4.1.2)."""

from turnwise.credit.base import Credit, ZeroSpread, broadcast, register, settled, spread
from turnwise.records import Group


@register("grpo")
def grpo(
    group: Group, *, eps: float = 1e-6, ddof: int = 1, a_max: float = 5.0, zero_spread: ZeroSpread = "drop"
) -> Credit:
    """A[i, t] = clip((R[i] - mean R) / (sigma_R + eps), -a_max, a_max) for every turn t.

    Args:
        group: prefix scores [..., G, T + 1]; only R, the last one, and the number of turns matter.
        eps: reward units. ddof: of sigma_R. a_max: clip. zero_spread: see `spread`.

    Raises:
        ValueError: a group that `checked` or `spread` refuses, with its index.
    """
    deviation, divisor, live = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    total = settled(deviation, group.scores) / divisor[..., None]
    return broadcast(total, group.scores.shape[-1] - 1, a_max, live)
