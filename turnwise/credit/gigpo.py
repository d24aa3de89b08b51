"""GiGPO: the trajectory's advantage plus that of the step among steps from the same state (arXiv 2505.10978)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from turnwise.credit.base import ROUNDING, Credit, ZeroSpread, register, settled, spread
from turnwise.credit.return_to_go import discounted
from turnwise.records import Bool, Float, Group, Int


@register("gigpo")
def gigpo(
    group: Group,
    *,
    gamma: float = 1.0,
    turn_weight: float = 1.0,
    eps: float = 1e-6,
    ddof: int = 1,
    a_max: float = 5.0,
    zero_spread: ZeroSpread = "drop",
) -> Credit:
    """A[i, t] = clip(A_global[i] + omega (g[i, t] - mean g) / (sigma_g + eps), -a_max, a_max).

    g[i, t] is the discounted return-to-go of the increments U[t] - U[t-1]; its mean and deviation are over all
    decisions of the group with the same `anchor`. An anchor that occurs once, or whose returns are equal, adds 0. On a
    fixed grid every trajectory sees the same frames, so equal states are equal actions so far (`anchors`).

    Args:
        group: prefix scores [..., G, T + 1] and `anchor` [..., G, T].
        gamma: discount a turn, 0 to 1. turn_weight: omega (no unit), 1 there. eps: reward units. ddof: of both
            deviations. a_max: clip. zero_spread: of R; see `spread`.

    Raises:
        ValueError: no anchor, or one of another shape; a group that `checked` or `spread` refuses, with its index.
    """
    deviation, divisor, live = spread(group.rewards, eps=eps, ddof=ddof, zero_spread=zero_spread)
    total = settled(deviation, group.scores) / divisor[..., None]
    turn = settled(discounted(np.diff(group.scores, axis=-1), gamma), group.scores)
    returns, anchor = turn.reshape(live.size, -1), _anchor(group).reshape(live.size, -1)
    for part in _chunks(returns):
        returns[part] = turn_weight * _among_equals(returns[part], anchor[part], eps, ddof)
    turn += total[..., None]
    turn *= live[..., None, None]
    np.clip(turn, -a_max, a_max, out=turn)
    return Credit(turn=turn, total=total, live=live)


def anchors(actions: Sequence[Sequence[Iterable[int]]]) -> Int:
    """[G, T] int64: a hash of the actions before each turn, from the token ids of each action [G][T][K].

    Equal where the same was sampled so far. 64 bits of BLAKE2b: the same on every machine, and in every process.
    """
    rows = []
    for trajectory in actions:
        digest, row = hashlib.blake2b(digest_size=8), []
        for tokens in trajectory:
            row.append(int.from_bytes(digest.digest(), "little", signed=True))
            digest.update((" ".join(map(str, tokens)) + ";").encode())
        rows.append(row)
    return np.array(rows, np.int64)


def _anchor(group: Group) -> Int:
    shape = (*group.scores.shape[:-1], group.scores.shape[-1] - 1)
    if group.anchor is None or np.shape(group.anchor) != shape:
        found = "none" if group.anchor is None else f"shape {np.shape(group.anchor)}"
        raise ValueError(f"gigpo compares equal states: Group.anchor must be {shape}, got {found}")
    return np.asarray(group.anchor)


def _chunks(returns: Float) -> Iterator[slice]:
    """Slices of groups [N, G T] of about a million decisions: sorting them takes several times their memory."""
    step = max(1, 1_000_000 // returns.shape[1])
    return (slice(start, start + step) for start in range(0, len(returns), step))


def _among_equals(values: Float, anchor: Int, eps: float, ddof: int) -> Float:
    """(x - mean) / (sigma + eps) of each value [N, G T] among its group's with the same anchor; 0 where none differs."""
    flat, state = values.ravel(), _states(anchor)
    count = np.bincount(state)
    deviation = flat - (np.bincount(state, flat) / count)[state]
    sigma = np.sqrt(np.bincount(state, deviation**2) / np.maximum(count - ddof, 1))
    largest = np.zeros(len(count))
    np.maximum.at(largest, state, np.abs(flat))
    alive: Bool = (count > 1) & (sigma > ROUNDING * np.maximum(1.0, largest))
    return (deviation / np.where(alive, sigma + eps, np.inf)[state]).reshape(values.shape)


def _states(anchor: Int) -> Int:
    """A number from 0 for each distinct (group, anchor) of [N, G T], as [N G T]."""
    owner = np.repeat(np.arange(len(anchor)), anchor.shape[1])
    order = np.lexsort((anchor.ravel(), owner))
    ordered = anchor.ravel()[order]
    first = np.ones(len(order), bool)
    first[1:] = (ordered[1:] != ordered[:-1]) | (owner[1:] != owner[:-1])
    states = np.empty(len(order), np.int64)
    states[order] = np.cumsum(first) - 1
    return states
