"""ThinkStream's reward (arXiv 2603.12938): format, time and correctness; its released code has a fourth term.

There an episode asks one thing and an answer is a literal (a letter, yes or no, a digit) that is right or not. Here an
episode may have several windows, so each has the turns from its start to the next one's, and an answer is a reply, right
where the judge gives it the best level. With one window these are its definitions. Left out: rounding slack to turns.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Asks, Evidence, Float, Int
from turnwise.rewards.base import Reward, answers_of, well_formed

THOUGHT = 15
"""Tokens of a thought that is long enough; shorter ones count in steps of `STEP`."""
STEP = 5
MOST, PACE = 10, 3
"""Answers to a window beyond which nothing is paid, and after how many more the count factor falls by a step."""


@dataclass(frozen=True)
class ThinkStream(Reward):
    """Every term is a function of the past: one pass over the turns, O(T + W), and O(T W) with efficiency."""

    weights: dict[str, float]
    """format, time, correctness and, optionally, efficiency."""
    top: int
    """The best level: levels - 1."""
    slack: float
    """Seconds about the start of a window within which an answer is in time."""
    decay_turns: int
    """Turns beyond the slack over which the time score falls to 0."""
    name: ClassVar[str] = "thinkstream"
    prefix_causal: ClassVar[bool] = True

    def asks(self, episode: Episode) -> Asks:
        """Each reply against the one window whose turns it falls in."""
        answers = np.zeros((episode.turns, len(episode.windows)), bool)
        if episode.windows:
            answers[np.arange(episode.turns), asked_at(episode)] = True
        return Asks(answers=answers)

    def prefix_terms(self, episode: Episode, evidence: Evidence) -> dict[str, Float]:
        """Each term [T + 1], unweighted, of the trajectory whose actions after turn t = 0..T are silence.

        format: share of well-formed actions. time, correctness: means over the windows that have turns, 0 for one not
        answered, of its first answer's closeness to the start of the window (1 within the slack, then linear to 0) and of
        whether it is right; a reply without a verdict is passed over. efficiency: mean over turns of how long the
        thought is, times the mean over windows of how few its answers are; silence in a reply's place thinks nothing.
        """
        scores = {
            "format": well_formed(evidence),
            **self._answers(episode, answers_of(evidence, self.name) if episode.windows else None),
        }
        if "efficiency" in self.weights:
            scores["efficiency"] = _long_enough(evidence) * _few_enough(episode, evidence)
        return {name: scores[name] for name in self.weights}

    def _answers(self, episode: Episode, levels: Float | None) -> dict[str, Float]:
        time, right = np.zeros(episode.turns + 1), np.zeros(episode.turns + 1)
        if levels is not None:
            times, window = np.array(episode.grid.times), asked_at(episode)
            level = levels[np.arange(episode.turns), window]
            answered = np.flatnonzero(~np.isnan(level))
            first = answered[np.unique(window[answered], return_index=True)[1]]
            late = np.abs(times[first] - _starts(episode)[window[first]]) - self.slack
            share = 1 / len(np.unique(window))
            time[first + 1] = share * np.clip(1 - late / (self.decay_turns * episode.grid.step), 0, 1)
            right[first + 1] = share * (level[first] == self.top)
        return {"time": np.cumsum(time), "correctness": np.cumsum(right)}


def asked_at(episode: Episode) -> Int:
    """[T] index of the window that a reply at each turn answers: the last one begun, the first before any has."""
    begun = np.searchsorted(_starts(episode), episode.grid.times, side="right") - 1
    return np.maximum(begun, 0)


def _starts(episode: Episode) -> Float:
    return np.array([window.reply[0] for window in episode.windows])


def _long_enough(evidence: Evidence) -> Float:
    """[T + 1] mean over turns of min(1, thought tokens, rounded down to steps, / THOUGHT)."""
    if evidence.thought_tokens is None:
        raise ValueError(f"{evidence.episode}: this evidence does not say how long thoughts are; judge again")
    factor = np.minimum(1.0, evidence.thought_tokens // STEP * STEP / THOUGHT)
    return np.concatenate([[0.0], np.cumsum(factor)]) / evidence.turns


def _few_enough(episode: Episode, evidence: Evidence) -> Float:
    """[T + 1] mean over windows with turns of 1 for one answer, 1/4 less for each further three begun, 0 for 0 or > MOST."""
    if not episode.windows:
        return np.zeros(evidence.turns + 1)
    window = asked_at(episode)
    counts = np.cumsum(np.eye(len(episode.windows))[window] * evidence.spoke[:, None], axis=0)[:, np.unique(window)]
    steps = -(-(counts - 1) // PACE)
    factor = np.where((counts >= 1) & (counts <= MOST), 1 - steps / (1 + -(-(MOST - 1) // PACE)), 0.0)
    return np.concatenate([[0.0], factor.mean(1)])
