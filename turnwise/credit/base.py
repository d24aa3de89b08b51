"""What every credit rule shares: its result, the registry, and the statistics of a group. Pure numpy, float64."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from turnwise.records import Bool, Float, Group

ZeroSpread = Literal["drop", "floor", "keep"]

ROUNDING = 1e-12
"""Numbers that differ by no more than this share of their size (of 1 below 1) are equal up to rounding."""


@dataclass(frozen=True)
class Credit:
    """Advantages of a group, or of a batch of groups."""

    turn: Float
    """[..., G, T] advantage of each decision, clipped at plus and minus a_max."""
    total: Float
    """[..., G] A_global = (R - mean R) / (sigma_R + eps), not clipped; 0 in a dropped group."""
    live: Bool
    """[...] False where the group was dropped for zero spread; all its advantages are 0."""


class Estimator(Protocol):
    """A credit rule: group in, advantages out. Every rule takes the same keywords."""

    def __call__(
        self,
        group: Group,
        *,
        alpha: float = ...,
        eps: float = ...,
        ddof: int = ...,
        a_max: float = ...,
        zero_spread: ZeroSpread = ...,
    ) -> Credit:
        """Advantages of `group`; ValueError names the index of a group that breaks an assumption."""


_ESTIMATORS: dict[str, Estimator] = {}


def register(name: str) -> Callable[[Estimator], Estimator]:
    """Add a credit rule to `estimators()` under `name` (decorator)."""

    def add(estimator: Estimator) -> Estimator:
        _ESTIMATORS[name] = estimator
        return estimator

    return add


def estimators() -> dict[str, Estimator]:
    """The registered credit rules by name."""
    return dict(_ESTIMATORS)


def checked(group: Group) -> Group:
    """The group with `scores` as float64 numpy, from numpy, torch or lists.

    Raises ValueError, with the group's index, for fewer than two trajectories, a score that is not finite, or an
    all-silent score U[0] that differs within a group (earned and remaining would then not be comparable).
    """
    scores = np.asarray(group.scores, dtype=np.float64)
    if scores.ndim < 2 or scores.shape[-1] < 2:
        raise ValueError(f"scores must be [..., G, T + 1] with T of at least 1, got shape {scores.shape}")
    batch = scores.shape[:-2]
    _refuse(np.full(batch, scores.shape[-2] < 2), f"needs at least 2 trajectories, has {scores.shape[-2]}")
    _refuse(~np.isfinite(scores).all((-2, -1)), "holds a score that is not finite; drop the trajectory first")
    _refuse(~equal(scores[..., 0]), "its trajectories differ in the all-silent score U[0]; score them alike")
    return replace(group, scores=scores)


def equal(values: Float) -> Bool:
    """[...] whether the G values [..., G] are equal up to rounding."""
    return np.asarray(np.ptp(values, axis=-1) <= ROUNDING * np.maximum(1.0, np.abs(values).max(-1)))


def settled(values: Float, scores: Float) -> Float:
    """Values made by adding and subtracting a group's scores [..., G, T + 1], those of rounding size made exactly 0.

    A decision with nothing to choose would otherwise have an advantage of 1e-16 and a sign, by chance.
    """
    size = np.maximum(1.0, np.abs(scores).max((-2, -1)))
    size = size.reshape(size.shape + (1,) * (values.ndim - size.ndim))
    return np.where(np.abs(values) <= ROUNDING * size, 0.0, values)


def spread(rewards: Float, *, eps: float, ddof: int, zero_spread: ZeroSpread) -> tuple[Float, Float, Bool]:
    """Deviations R - mean R [..., G], the divisor sigma_R + eps [...] and live [...] of rewards R [..., G].

    sigma_R is two-pass, over G - ddof. Rewards equal up to rounding have zero deviation and zero sigma_R; their group
    is dropped (`drop`: the divisor is infinite, so every quotient by it is 0), gets sigma_R = 1 (`floor`), or stays
    with eps alone (`keep`; ValueError if eps is 0, too).
    """
    flat = equal(rewards)
    deviation = np.where(flat[..., None], 0.0, rewards - rewards.mean(-1, keepdims=True))
    sigma = np.sqrt((deviation**2).sum(-1) / (rewards.shape[-1] - ddof))
    divisor = np.where(flat, {"drop": np.inf, "floor": 1.0, "keep": 0.0}[zero_spread], sigma) + eps
    _refuse(divisor == 0, "has zero spread, which zero_spread='keep' divides by; give eps above 0")
    return deviation, divisor, np.isfinite(divisor)


def _refuse(bad: Bool | np.bool_, reason: str) -> None:
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"group {index[0] if len(index) == 1 else index or 0}: {reason}")
