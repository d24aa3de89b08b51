"""StreamPro's reward (arXiv 2605.16381): format, an F1 of replies matched to windows by time, and a rubric.

Left out: its second reach for tasks in which nothing may be said early.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import CHECKPOINTS, Asks, Evidence, Float
from turnwise.rewards.base import Reward, answers_of, replied, well_formed


@dataclass(frozen=True)
class StreamPro(Reward):
    """Format and rubric are one scan, O(T); the F1 is matched anew after each reply.

    A later reply may take a window from an earlier one, which may then take another, so no scan over single replies gives
    the prefixes: with P replies they cost O(P T W).
    """

    weights: dict[str, float]
    """format, turn and, where it is judged, rubric."""
    top: int
    """The best level: levels - 1."""
    reach: float
    """tau: seconds about the start of a window within which a reply may be matched to it."""
    per_prefix: bool
    """The rubric was judged on each prefix by itself. Else it is known of whole dialogues only."""
    name: ClassVar[str] = "streampro"

    @property
    def prefix_causal(self) -> bool:
        """A rubric of the whole dialogue pays a reply for what comes later."""
        return self.per_prefix or "rubric" not in self.weights

    def asks(self, episode: Episode) -> Asks:
        """Each reply against the windows in reach, and the rubric."""
        return Asks(answers=self._closeness(episode) >= 0, rubric="rubric" in self.weights)

    def prefix_terms(self, episode: Episode, evidence: Evidence) -> dict[str, Float]:
        """Each term [T + 1], unweighted, of the trajectory whose actions after turn t = 0..T are silence.

        format: share of well-formed actions. turn: 2 sum S / (replies + windows), 0 to 2, where S = max(0, 1 - |dt| / tau)
        + level / top of the reply that a window takes, window after window, the best in reach that is left (the earlier of
        equals). Windows without a turn in reach are left out, and so are replies without any verdict; a malformed action
        counts and matches nothing. rubric: share of the checkpoints met; 0 of silence, kept where there is no verdict.
        """
        scores = {"format": well_formed(evidence), "turn": self._matched(episode, evidence)}
        if "rubric" in self.weights:
            scores["rubric"] = np.concatenate([[0.0], _rubric_of(evidence)]) / CHECKPOINTS
        return {name: scores[name] for name in self.weights}

    def _closeness(self, episode: Episode) -> Float:
        """[T, W] 1 - |dt| / tau, 1 at the start of the window and negative out of reach."""
        starts = np.array([window.reply[0] for window in episode.windows])
        return 1 - np.abs(np.array(episode.grid.times)[:, None] - starts) / self.reach

    def _matched(self, episode: Episode, evidence: Evidence) -> Float:
        closeness, levels = self._closeness(episode), answers_of(evidence, self.name)
        reachable = closeness >= 0
        worth = np.where(reachable, closeness + levels / self.top, np.nan)
        judged = ~np.isnan(worth)
        unknown = replied(evidence) & reachable.any(1) & ~judged.any(1)
        counted = np.concatenate([[0], np.cumsum(evidence.spoke & ~unknown)])
        total = np.zeros(episode.turns + 1)
        for turn in range(1, episode.turns + 1):
            total[turn] = greedy(worth[:turn]) if judged[turn - 1].any() else total[turn - 1]
        return 2 * total / np.maximum(1, counted + reachable.any(0).sum())


def greedy(worth: Float) -> float:
    """Sum of what the windows take, in order: each the best reply of [T, W] that is left; NaN is no match."""
    free, total = np.ones(len(worth), bool), 0.0
    for column in worth.T:
        open_ = np.flatnonzero(free & ~np.isnan(column))
        if len(open_):
            best = open_[np.argmax(column[open_])]
            free[best], total = False, total + column[best]
    return float(total)


def _rubric_of(evidence: Evidence) -> Float:
    if evidence.rubric is None:
        raise ValueError(f"{evidence.episode}: this evidence holds no rubric; judge again")
    return evidence.rubric
