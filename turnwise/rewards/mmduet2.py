"""MMDuet2's reward (arXiv 2512.06810, section 4.3.2), by the paper's definitions; the released code's differ.

Left out: the released code's denominators (turns instead of replies), and PAUC of accumulated replies, which is the
benchmark's way to score and not this reward's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Evidence, Float
from turnwise.rewards.pauc import Reachable, prefix_pauc


@dataclass(frozen=True)
class MMDuet2:
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
    name: ClassVar[str] = "mmduet2"
    prefix_causal: ClassVar[bool] = True

    def prefix_terms(self, episode: Episode, evidence: Evidence) -> dict[str, Float]:
        """Each term [T + 1], unweighted, of the trajectory whose actions after turn t = 0..T are silence.

        pauc: mean PAUC, 0 to 1, over the windows that hold a decision time (0 without such a window).
        repetition, outside, prefix: minus the share, 0 to 1, of replies that repeat earlier ones, that fall in no
        window, whose common prefix with an earlier one has `prefix_chars` or more; 0 before any reply.
        """
        return {name: term[0] for name, term in self.batch_terms([(episode, evidence)]).items()}

    def batch_terms(self, judged: Sequence[tuple[Episode, Evidence]]) -> dict[str, Float]:
        """`prefix_terms` of B trajectories at once [B, T + 1], with T the longest; shorter rows hold their last value."""
        episodes = {id(episode): episode for episode, _ in judged}
        windows = {key: Reachable.of(episode) for key, episode in episodes.items()}
        evidence = [one for _, one in judged]
        spoke = _rows([one.spoke for one in evidence], False)
        repeats = _rows([one.repeats for one in evidence], np.nan)
        outside = _rows([one.outside for one in evidence], False)
        long = _rows([one.prefix_chars for one in evidence], 0) >= self.prefix_chars
        levels, replies = [one.levels for one in evidence], _counted(spoke)
        return {
            "pauc": prefix_pauc([windows[id(episode)] for episode, _ in judged], levels, self.top, self.omega),
            "repetition": _penalty(repeats == 1, _counted(~np.isnan(repeats))),
            "outside": _penalty(outside, replies),
            "prefix": _penalty(spoke & long, replies),
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
    """Minus the share of bad ones [B, T] among the `replies` so far [B, T], as [B, T + 1]; 0 where there is none yet."""
    penalty = np.zeros((bad.shape[0], bad.shape[1] + 1))
    np.divide(_counted(bad), -np.maximum(replies, 1), out=penalty[:, 1:])
    return penalty + 0.0
