"""Discounted return-to-go of the increments (as in Kevin, arXiv 2507.11948, and GTPO, arXiv 2511.14846)."""

from turnwise.credit.base import Credit, ZeroSpread, divided, register, spread
from turnwise.credit.difference import centred_increments
from turnwise.records import Float, Group


@register("return_to_go")
def return_to_go(
    group: Group,
    *,
    gamma: float = 1.0,
    eps: float = 1e-6,
    ddof: int = 1,
    a_max: float = 5.0,
    zero_spread: ZeroSpread = "drop",
) -> Credit:
    """A[i, t] = clip(sum over k >= t of gamma^(k-t) (d[i, k] - mean_j d[j, k]) / (sigma_R + eps), -a_max, a_max).

    d[t] = U[t] - U[t-1]. gamma = 1 is `turnwise` with alpha = 1 (up to rounding), gamma = 0 is `difference`.

    Args:
        group: prefix scores [..., G, T + 1].
        gamma: discount a turn, 0 to 1. eps: reward units. ddof: of sigma_R. a_max: clip. zero_spread: see `spread`.

    Raises:
        ValueError: a group that `checked` or `spread` refuses, with its index.
    """
    parts = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    return divided(discounted(centred_increments(group), gamma), group, parts, a_max)


def discounted(increments: Float, gamma: float) -> Float:
    """Sum over k >= t of gamma^(k-t) x[k], for x [..., T], in place."""
    for t in range(increments.shape[-1] - 2, -1, -1):
        increments[..., t] += gamma * increments[..., t + 1]
    return increments
