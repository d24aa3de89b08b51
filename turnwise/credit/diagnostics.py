"""Figures of credit that trainers watch: how large advantages are, and how often, and in which groups, they hit the clip."""

from collections.abc import Sequence

import numpy as np

from turnwise.credit.base import Credit
from turnwise.records import Float, Group


def advantage_figures(turns: Sequence[Float], a_max: float) -> dict[str, float]:
    """Mean, standard deviation and share at plus or minus a_max of all decisions, from arrays of any shapes."""
    values = np.concatenate([np.ravel(turn) for turn in turns])
    clipped = float((np.abs(values) >= a_max).mean())
    return {
        "advantage_mean": float(values.mean()),
        "advantage_std": float(values.std()),
        "advantage_clipped_share": clipped,
    }


def clipped_by_spread(groups: Sequence[Group], credits: Sequence[Credit], a_max: float) -> Float:
    """[10] share of decisions at plus or minus a_max in each decile of the groups by sigma_R, the smallest first.

    Dropped groups are left out; NaN for a decile without a group. A share that falls from the first decile to the last
    says that the clip acts where the division by a small sigma_R made noise large.
    """
    live = [(group, credit) for group, credit in zip(groups, credits, strict=True) if np.all(credit.live)]
    order = np.argsort([np.std(group.rewards) for group, _ in live], kind="stable")
    shares = np.array([np.mean(np.abs(credit.turn) >= a_max) for _, credit in live])
    deciles = np.array_split(shares[order], 10) if len(live) else [shares] * 10
    return np.array([part.mean() if part.size else np.nan for part in deciles])
