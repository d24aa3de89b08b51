"""What every credit rule shares: its result, the registry, and the statistics of a group. Pure numpy, float64.

Every rule takes prefix scores, and assumes of them what makes a difference of two prefix scores the worth of one turn:

- prefix-causal evidence: what is known of turn t depends on turns up to t only (`Reward.prefix_causal`; the sweep
  refuses a reward that says otherwise, numbers cannot tell);
- a grid fixed before the roll-out: T is the same in a group, so that a mean per turn compares like with like, and
  silence earns every trajectory of a group the same U[0].

What a rule can see broken it refuses, with a ValueError that names the group's index in the batch. Statistics are
float64; results come back as the scores came, numpy or torch, in float64 where they came in it and else in float32.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np

from turnwise.records import Bool, Float, Group

ZeroSpread = Literal["drop", "floor", "keep"]

ROUNDING = 1e-12
"""Numbers that differ by no more than this share of their size (of 1 below 1) are equal up to rounding."""


@dataclass(frozen=True)
class Credit:
    """Advantages of a group, or of a batch of groups."""

    turn: Float
    """[..., G, T] advantage of each decision, clipped at plus and minus a_max; 0 in a dropped group."""
    total: Float
    """[..., G] what the rule gives to the whole trajectory by its reward, not clipped; A_global where it is normalised."""
    live: Bool
    """[...] False where nothing is to be learnt: the group was dropped for zero spread, or has no advantage but 0."""


class Estimator(Protocol):
    """A credit rule: group in, advantages out. `keywords` lists the settings that it takes."""

    def __call__(self, group: Group, **settings: Any) -> Credit:
        """Advantages of `group`; ValueError names the index of a group that breaks an assumption."""


_ESTIMATORS: dict[str, Estimator] = {}


def register(name: str) -> Callable[[Callable[..., Credit]], Estimator]:
    """Add a credit rule to `estimators()` under `name` (decorator).

    The rule receives a `checked` group; its result goes back in the kind and precision in which the scores came.
    """

    def add(rule: Callable[..., Credit]) -> Estimator:
        @functools.wraps(rule)
        def estimator(group: Group, **settings: Any) -> Credit:
            return _like(rule(checked(group), **settings), group.scores)

        _ESTIMATORS[name] = estimator
        return estimator

    return add


def estimators() -> dict[str, Estimator]:
    """The registered credit rules by name."""
    return dict(_ESTIMATORS)


def keywords(estimator: Estimator) -> list[str]:
    """Names of the settings that a rule takes."""
    return list(inspect.signature(estimator).parameters)[1:]


def checked(group: Group) -> Group:
    """The group as float64 numpy, from numpy, torch (any device) or lists.

    Raises ValueError, with the group's index, for fewer than two trajectories, trajectories of unequal T, a score that
    is not finite, or an all-silent score U[0] that differs within a group (what was earned would not be comparable).
    """
    scores = _float64(group.scores)
    if scores.ndim < 2 or scores.shape[-1] < 2:
        raise ValueError(f"scores must be [..., G, T + 1] with T of at least 1, got shape {scores.shape}")
    batch, size = scores.shape[:-2], scores.shape[-2]
    refuse(np.full(batch, size < 2), f"needs at least 2 trajectories, has {size}")
    refuse(~np.isfinite(scores).all((-2, -1)), "holds a score that is not finite; drop the trajectory first")
    refuse(~equal(scores[..., 0]), "its trajectories differ in the all-silent score U[0]; score them alike")
    return replace(group, scores=scores, terms={name: _float64(term) for name, term in group.terms.items()})


def equal(values: Float) -> Bool:
    """[...] whether the G values [..., G] are equal up to rounding."""
    low, high = values.min(-1), values.max(-1)
    return np.asarray(high - low <= ROUNDING * np.maximum(1.0, np.maximum(high, -low)))


def settled(values: Float, scores: Float) -> Float:
    """`values`, made by adding and subtracting a group's scores [..., G, T + 1]: those of rounding size become 0, in place.

    A decision with nothing to choose would otherwise have an advantage of 1e-16 and a sign, by chance.
    """
    size = np.maximum(1.0, np.maximum(scores.max((-2, -1)), -scores.min((-2, -1))))
    size = size.reshape(size.shape + (1,) * (values.ndim - size.ndim))
    values[np.abs(values) <= ROUNDING * size] = 0.0
    return values


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
    refuse(divisor == 0, "has zero spread, which zero_spread='keep' divides by; give eps above 0")
    return deviation, divisor, np.isfinite(divisor)


def divided(turn: Float, group: Group, parts: tuple[Float, Float, Bool], a_max: float) -> Credit:
    """The credit of what each turn is due [..., G, T], reward units, over the group's divisor; `parts` is from `spread`.

    `turn` is changed in place.
    """
    deviation, divisor, live = parts
    settled(turn, group.scores)
    turn /= divisor[..., None, None]
    np.clip(turn, -a_max, a_max, out=turn)
    return Credit(turn, settled(deviation, group.scores) / divisor[..., None], live)


def broadcast(total: Float, turns: int, a_max: float, live: Bool) -> Credit:
    """The credit that gives each of T turns its trajectory's `total` [..., G], clipped."""
    return Credit(np.repeat(np.clip(total, -a_max, a_max)[..., None], turns, axis=-1), total, live)


def refuse(bad: Bool | np.bool_, reason: str) -> None:
    """Raise ValueError with `reason` and the index of the first group for which `bad` [...] is true."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"group {index[0] if len(index) == 1 else index or 0}: {reason}")


def _float64(values: Any) -> Float:
    if torch := _torch_of(values):
        return np.asarray(values.detach().to("cpu", torch.float64).numpy())
    try:
        return np.asarray(values, dtype=np.float64)
    except ValueError:
        raise ValueError(_ragged(values)) from None


def _torch_of(values: Any) -> ModuleType | None:
    """torch, where `values` is a tensor of it; nothing is imported."""
    torch = sys.modules.get("torch")
    return torch if torch and isinstance(values, torch.Tensor) else None


def _like(credit: Credit, scores: Any) -> Credit:
    """The credit in the kind, device and precision of `scores`."""
    if torch := _torch_of(scores):
        dtype = torch.float64 if scores.dtype == torch.float64 or not scores.is_floating_point() else torch.float32
        turn, total = (torch.as_tensor(part, dtype=dtype, device=scores.device) for part in (credit.turn, credit.total))
        return Credit(turn, total, torch.as_tensor(credit.live, device=scores.device))
    kind = np.asarray(scores).dtype
    narrow = np.issubdtype(kind, np.floating) and kind.itemsize < 8
    dtype = np.float32 if narrow else np.float64
    return Credit(credit.turn.astype(dtype, copy=False), credit.total.astype(dtype, copy=False), credit.live)


def _ragged(scores: Sequence[Any]) -> str:
    """What is wrong with nested lists that make no array."""
    groups = scores if isinstance(scores[0][0], Sequence | np.ndarray) else [scores]
    for index, group in enumerate(groups):
        turns = sorted({len(row) - 1 for row in group})
        if len(turns) > 1:
            return f"group {index}: its trajectories have {turns} turns; a mean per turn needs the same T in a group"
    return "groups of one call must have the same G and T; call once for each shape"
