"""GDPO: each reward term is normalised by itself before the terms are added (arXiv 2601.05242)."""

import numpy as np

from turnwise.credit.base import Credit, ZeroSpread, broadcast, refuse, register, settled, spread
from turnwise.records import Group


@register("gdpo")
def gdpo(
    group: Group, *, eps: float = 1e-6, ddof: int = 1, a_max: float = 5.0, zero_spread: ZeroSpread = "drop"
) -> Credit:
    """A[i, t] = clip(sum over terms k of w[k] (r[i, k] - mean r[k]) / (sigma_k + eps), -a_max, a_max) for every turn.

    r[k] is the trajectory's own value of term k. A term without spread in the group adds 0; the group is dropped where
    none has spread (`zero_spread` says what becomes of such a term, as `spread` does for R). The whitening over the
    batch that follows there is left out: it would make a group's advantages depend on the other groups.

    Args:
        group: prefix scores [..., G, T + 1], with `terms` of that shape and `weights`.
        eps: units of each term. ddof: of each sigma. a_max: clip.

    Raises:
        ValueError: no terms, a term without a weight, or a group that `checked` or `spread` refuses, with its index.
    """
    if not group.terms or group.terms.keys() != group.weights.keys():
        raise ValueError(
            f"gdpo needs the terms and their weights, got {sorted(group.terms)} and {sorted(group.weights)}"
        )
    total, live = np.zeros(group.scores.shape[:-1]), np.zeros(group.scores.shape[:-2], bool)
    for name, weight in group.weights.items():
        term = group.terms[name]
        refuse(
            ~np.isfinite(term).all((-2, -1)), f"holds a value of {name} that is not finite; drop the trajectory first"
        )
        deviation, divisor, varies = spread(term[..., -1], eps=eps, ddof=ddof, zero_spread=zero_spread)
        total += weight * settled(deviation, term) / divisor[..., None]
        live |= varies & (weight != 0)
    return broadcast(total, group.scores.shape[-1] - 1, a_max, live)
