"""MMDuet2's reward (arXiv 2512.06810, section 4.3.2), by the paper's definitions; the released code's differ.

Left out: the released code's denominators (turns instead of replies), and PAUC of accumulated replies, which is the
benchmark's way to score and not this reward's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Evidence, Float
from turnwise.rewards.pauc import prefix_pauc


@dataclass(frozen=True)
class MMDuet2:
    """PAUC of the latest reply less three ratios of bad replies. Every term is a function of the past: O(T W) a scan.

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
        spoke = evidence.spoke
        return {
            "pauc": self._pauc(episode, evidence.levels),
            "repetition": _penalty(evidence.repeats == 1, ~np.isnan(evidence.repeats)),
            "outside": _penalty(evidence.outside, spoke),
            "prefix": _penalty(spoke & (evidence.prefix_chars >= self.prefix_chars), spoke),
        }

    def _pauc(self, episode: Episode, levels: Float) -> Float:
        times = np.array(episode.grid.times)
        spans = np.array([window.reply for window in episode.windows]).reshape(-1, 2)
        reachable = ((times[:, None] >= spans[:, 0]) & (times[:, None] <= spans[:, 1])).any(0)
        if not reachable.any():
            return np.zeros(len(times) + 1)
        return prefix_pauc(levels[:, reachable], times, spans[reachable], self.top, self.omega).mean(0)


def _penalty(bad: np.ndarray, replies: np.ndarray) -> Float:
    """Minus the share of bad ones among the replies so far [T + 1]; 0 where there is none yet."""
    bad_so_far, so_far = (np.concatenate([[0], np.cumsum(flags)]) for flags in (bad, replies))
    return 0.0 - bad_so_far / np.maximum(so_far, 1)
