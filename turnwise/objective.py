"""The loss, as pure functions on tensors [B, L]: B rows (trajectories), L positions of their action tokens.

Every aggregation is one weight a token, computed once over all rows of an optimizer step; the loss is a plain sum.
So micro-batches (slices of rows, weights sliced along) add up to the same gradient whatever the split.

Arguments are tensors, or numpy arrays of the same shapes; results are tensors.
`mask` is true where a token was sampled; `turn_ids` is the 0-based turn of each token, anything where the mask is
false. Positions outside the mask may hold NaN or infinity in every argument: they change neither loss nor gradient.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Values = Tensor | np.ndarray
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "turn-mean", "turn-sum-norm"]
Level = Literal["token", "turn", "sequence"]
Divergence = Literal["k1", "k2", "k3"]


@dataclass(frozen=True)
class Loss:
    """A loss, and how many tokens each clip holds still; all add up over micro-batches.

    Divided by the step's action tokens, the counts are the clip fractions that trainers report, whatever the weights.
    """

    loss: Tensor
    """Scalar, to be minimised."""
    clip_low: Tensor
    """Scalar, tokens: advantage below 0 and ratio below 1 - clip_low."""
    clip_high: Tensor
    """Scalar, tokens: advantage above 0 and ratio above 1 + clip_high."""
    dual: Tensor
    """Scalar, tokens: advantage below 0 and ratio above dual_clip."""


def token_weights(mask: Values, turn_ids: Values, mode: Aggregation) -> Tensor:
    """Weight of each token [B, L], float64, 0 outside the mask; pass all rows of the optimizer step.

    With m the mask, n_i the tokens of row i, L_it those of its turn t, T_i its turns that have tokens, and S = B:
    `token-mean` m / sum(m); `seq-mean-token-mean` m / (n_i S); `seq-mean-token-sum` m / S;
    `turn-mean` m / (L_it T_i S), so that a wait weighs as much as a long reply (arXiv 2611.06728); `turn-sum-norm`
    m / (T_i S M) with M = sum(n) / sum(T), the tokens of a mean turn of the batch: turns are averaged, but no weight
    depends on the sampled length of its own action more than through M, so the size of the gradient stays and the
    bias of 1 / L_it goes. Rows without a token count in S, so the mean modes add up to 1 less their share.
    Raises ValueError for another mode.
    """
    mask, turn_ids = torch.as_tensor(mask).bool(), torch.as_tensor(turn_ids)
    rows, tokens = mask.shape[0], mask.sum(1, keepdim=True).double()
    turn_tokens, turns = _turn_sums(mask.double(), mask, turn_ids)
    divisors = {
        "token-mean": tokens.sum(),
        "seq-mean-token-mean": tokens * rows,
        "seq-mean-token-sum": torch.full_like(tokens, rows),
        "turn-mean": turn_tokens * turns * rows,
        "turn-sum-norm": turns * rows * (tokens.sum() / turns.sum().clamp(min=1)),
    }
    return torch.where(mask, 1.0 / divisors[_known(mode, divisors)], 0.0)


def _turn_sums(values: Tensor, mask: Tensor, turn_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of `values` (0 outside the mask) over each token's turn [B, L], and the number of turns of each row [B, 1]."""
    ids = torch.where(mask, turn_ids, 0).long()
    empty = values.new_zeros(mask.shape[0], int(ids.max()) + 1)
    sums = empty.scatter_add(1, ids, values).gather(1, ids)
    turns = (empty.scatter_add(1, ids, mask.to(values.dtype)) > 0).sum(1, keepdim=True)
    return sums, turns


def to_tokens(advantages: Values, mask: Values, turn_ids: Values) -> Tensor:
    """Give each token [B, L] the advantage of its turn, from advantages [B, T]; 0 outside the mask."""
    advantages, mask, turn_ids = torch.as_tensor(advantages), torch.as_tensor(mask).bool(), torch.as_tensor(turn_ids)
    return torch.where(mask, advantages.gather(1, torch.where(mask, turn_ids, 0).long()), 0.0)


def token_shaping(advantages: Values, shaping: Values, mask: Values, *, weight: float) -> Tensor:
    """Advantages of tokens [B, L] plus `weight` times an additive per-token term [B, L]; 0 outside the mask.

    For rules that grade tokens within an action (ORSD, process rewards): it goes on top of any credit rule, after
    `to_tokens`, and is neither normalised nor clipped here.
    """
    shaped = torch.as_tensor(advantages) + weight * torch.as_tensor(shaping)
    return torch.where(torch.as_tensor(mask).bool(), shaped, 0.0)


def log_ratio(logp: Values, old_logp: Values, mask: Values, turn_ids: Values, level: Level) -> Tensor:
    """Log of the probability ratio of each token [B, L], 0 outside the mask.

    `token`: logp - old_logp. `turn`, `sequence`: its mean over the token's turn or row, that is the log of the
    geometric mean ratio (GSPO, arXiv 2507.18071); every token of the span shares value and gradient.
    """
    mask, turn_ids = torch.as_tensor(mask).bool(), torch.as_tensor(turn_ids)
    difference = torch.where(mask, torch.as_tensor(logp) - torch.as_tensor(old_logp), 0.0)
    if level == "token":
        return difference
    ids = turn_ids if level == "turn" else torch.zeros_like(turn_ids)
    sums, _ = _turn_sums(difference, mask, ids)
    counts, _ = _turn_sums(mask.to(difference.dtype), mask, ids)
    return torch.where(mask, sums / counts.clamp(min=1), 0.0)


def policy_loss(
    log_ratio: Values, advantages: Values, weights: Values, *, clip_low: float, clip_high: float, dual_clip: float
) -> Loss:
    """PPO's clipped loss with a dual clip (arXiv 1707.06347, equation 7; arXiv 1912.09729), summed.

    A token costs max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)), and at most -A dual_clip where A < 0. Written
    out, that is -A min(r, 1 + clip_high) for A >= 0 and -A clip(r, 1 - clip_low, dual_clip) for A < 0, which is how
    it is computed, bounding log r: no ratio overflows, and the gradient at a bound is the inner one.

    Args:
        log_ratio, advantages, weights: [B, L], or shapes that broadcast to it; tokens of weight 0 are ignored.
        clip_low: 0 to 1. clip_high: from 0. dual_clip: above 1; infinity turns it off. Bounds on the ratio (no unit).
    """
    weights = torch.as_tensor(weights)
    live = weights != 0
    x = torch.where(live, torch.as_tensor(log_ratio), 0.0)
    advantage = torch.where(live, torch.as_tensor(advantages), 0.0)
    low = math.log1p(-clip_low) if clip_low < 1 else -math.inf
    high, dual = math.log1p(clip_high), math.log(dual_clip)
    negative = advantage < 0
    ratio = torch.where(negative, x.clamp(low, dual), x.clamp(max=high)).exp()
    return Loss(
        loss=(-advantage * ratio * weights).sum(),
        clip_low=(negative & (x < low)).sum(),
        clip_high=((advantage > 0) & (x > high)).sum(),
        dual=(negative & (x > dual)).sum(),
    )


def kl(logp: Values, ref_logp: Values, kind: Divergence, mask: Values | None = None) -> Tensor:
    """Estimate of KL(policy || reference) at each token [B, L] from one sample; 0 outside the mask, where one is given.

    With d = ref_logp - logp: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d (J. Schulman, "Approximating KL divergence").
    Raises ValueError for another kind.
    """
    d = torch.as_tensor(ref_logp) - torch.as_tensor(logp)
    d = d if mask is None else torch.where(torch.as_tensor(mask).bool(), d, 0.0)
    kinds = {"k1": lambda: -d, "k2": lambda: d.square() / 2, "k3": lambda: torch.expm1(d) - d}
    return kinds[_known(kind, kinds)]()


def _known(name: str, choices: Iterable[str]) -> str:
    if name not in choices:
        raise ValueError(f"{name!r} is not one of {', '.join(choices)}")
    return name
