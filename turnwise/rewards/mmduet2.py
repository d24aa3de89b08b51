"""MMDuet2's reward (arXiv 2512.06810, section 4.3.2), by the paper's definitions or by its released code's.

Left out: two faults of that code (scores kept by the time of a reply alone, so that overlapping windows overwrite each
other, and replies before the clip looked for where they are not), and PAUC of accumulated replies, which is the
benchmark's way to score and not this reward's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Bool, Evidence, Float
from turnwise.rewards.base import Reward
from turnwise.rewards.pauc import Reachable, prefix_pauc


@dataclass(frozen=True)
class MMDuet2(Reward):
    """PAUC of the latest reply less three ratios of bad replies. Every term is a function of the past: one scan, O(T).

    A malformed action counts as a reply. A reply without a verdict is left out of PAUC and of the repetition ratio.
    """

    weights: dict[str, float]
    """pauc, repetition, outside, prefix; from 0 up: the penalties themselves are negative."""
    top: int
    """S, the best level: levels - 1."""
    omega: float
    """PAUC's trade of timeliness (0) for correctness (1)."""
    prefix_chars: int
    """Characters of a common prefix that counts as long."""
    variant: Literal["paper", "released"] = "paper"
    """Whose definitions."""
    name: ClassVar[str] = "mmduet2"
    prefix_causal: ClassVar[bool] = True

    def prefix_terms(self, episode: Episode, evidence: Evidence) -> dict[str, Float]:
        """Each term [T + 1], unweighted, of the trajectory whose actions after turn t = 0..T are silence.

        pauc: mean PAUC, 0 to 1, over the windows that hold a decision time (0 without such a window).
        repetition, outside, prefix: minus the share, 0 to 1, of replies that repeat earlier ones, that fall in no
        window, whose common prefix with an earlier one has `prefix_chars` or more; 0 before any reply.

        The released code differs: a window without a decision time counts in PAUC if it starts by the last one; a reply
        counts once more among the repeats, and among the replies, for each window in which it is not the first; outside
        is a share of the turns outside every window, waits included, and prefix one of all turns.
        """
        return {name: term[0] for name, term in self.batch_terms([(episode, evidence)]).items()}

    def batch_terms(self, judged: Sequence[tuple[Episode, Evidence]]) -> dict[str, Float]:
        """`prefix_terms` of B trajectories at once [B, T + 1], with T the longest; shorter rows hold their last value."""
        episodes = {id(episode): episode for episode, _ in judged}
        released = self.variant == "released"
        windows = {key: Reachable.of(episode, begun=released) for key, episode in episodes.items()}
        evidence = [one for _, one in judged]
        spoke = _rows([one.spoke for one in evidence], False)
        repeats = _rows([one.repeats for one in evidence], np.nan)
        outside = _rows([one.outside for one in evidence], False)
        long = _rows([one.prefix_chars for one in evidence], 0) >= self.prefix_chars
        levels, replies = [one.levels for one in evidence], _counted(spoke)
        pauc = prefix_pauc([windows[id(episode)] for episode, _ in judged], levels, self.top, self.omega)
        if not released:
            return {
                "pauc": pauc,
                "repetition": _penalty(repeats == 1, _counted(~np.isnan(repeats))),
                "outside": _penalty(outside, replies),
                "prefix": _penalty(spoke & long, replies),
            }
        inside = {key: _inside(episode) for key, episode in episodes.items()}
        times = _rows([_times_counted(inside[id(episode)], one) for episode, one in judged], 0)
        idle = np.array([(~inside[id(episode)].any(1)).sum() for episode, _ in judged])
        turns = np.array([one.turns for one in evidence])
        return {
            "pauc": pauc,
            "repetition": _penalty((repeats == 1) * times, _counted(~np.isnan(repeats) * times)),
            "outside": _penalty(outside, idle[:, None]),
            "prefix": _penalty(spoke & long, turns[:, None]),
        }


def _rows(values: Sequence[np.ndarray], fill: float) -> np.ndarray:
    """[B, T] from rows of up to T values."""
    rows = np.full((len(values), max(map(len, values))), fill, values[0].dtype)
    for row, one in zip(rows, values, strict=True):
        row[: len(one)] = one
    return rows


def _counted(flags: np.ndarray) -> np.ndarray:
    """How many so far [B, T]."""
    return np.cumsum(flags, axis=1, dtype=np.int32)


def _penalty(bad: np.ndarray, replies: np.ndarray) -> Float:
    """Minus the share of bad ones [B, T] among the `replies` so far [B, T] (or of all [B, 1]), as [B, T + 1]; 0 of none."""
    penalty = np.zeros((bad.shape[0], bad.shape[1] + 1))
    np.divide(_counted(bad), -np.maximum(replies, 1), out=penalty[:, 1:])
    return penalty + 0.0


def _inside(episode: Episode) -> Bool:
    """[T, W] whether a decision time is inside a window, both ends included."""
    times = np.array(episode.grid.times)[:, None]
    start, end = np.array([window.reply for window in episode.windows]).reshape(-1, 2).T
    return (times >= start) & (times <= end)


def _times_counted(inside: Bool, evidence: Evidence) -> np.ndarray:
    """[T] 1, and 1 more for each window that held a reply before this one."""
    said = inside & evidence.spoke[:, None]
    return 1 + (said & (np.cumsum(said, axis=0) > 1)).sum(1)
