"""MT-GRPO: the outcome's advantage plus that of the turn's own reward (arXiv 2505.11821)."""

import numpy as np

from turnwise.credit.base import Credit, ZeroSpread, equal, register, settled, spread
from turnwise.records import Group


@register("mt_grpo")
def mt_grpo(
    group: Group,
    *,
    turn_weight: float = 1.0,
    eps: float = 1e-6,
    ddof: int = 1,
    a_max: float = 5.0,
    zero_spread: ZeroSpread = "drop",
) -> Credit:
    """A[i, t] = clip(A_global[i] + lambda (d[i, t] - mean_j d[j, t]) / (sigma_d[t] + eps), -a_max, a_max).

    d[t] = U[t] - U[t-1] is the turn's reward and sigma_d[t] its standard deviation over the group: outcome and turn
    are each normalised by themselves, as there. A turn at which all of a group earn the same adds nothing.

    Args:
        group: prefix scores [..., G, T + 1].
        turn_weight: lambda (no unit), 1 there. eps: reward units. ddof: of both deviations. a_max: clip.
        zero_spread: of R; see `spread`.

    Raises:
        ValueError: a group that `checked` or `spread` refuses, with its index.
    """
    deviation, divisor, live = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    total = settled(deviation, group.scores) / divisor[..., None]
    turn = settled(np.diff(group.scores, axis=-1), group.scores)
    flat = equal(np.moveaxis(turn, -2, -1))
    turn -= turn.mean(-2, keepdims=True)
    sigma = np.sqrt(np.einsum("...gt,...gt->...t", turn, turn) / (turn.shape[-2] - ddof))
    turn *= (turn_weight / np.where(flat, np.inf, sigma + eps))[..., None, :]
    turn += total[..., None]
    turn *= live[..., None, None]
    np.clip(turn, -a_max, a_max, out=turn)
    return Credit(turn=turn, total=total, live=live)
