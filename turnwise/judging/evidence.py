"""From trajectories to evidence: what must be judged is listed, graded in one go, and filled in."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.episodes import Episode
from turnwise.judging.base import Grade, Judge
from turnwise.judging.cache import VerdictCache
from turnwise.records import Evidence, Float, Trajectory


@dataclass(frozen=True)
class _Ask:
    """A grade that is wanted, and where its score goes."""

    item: Grade
    evidence: Evidence
    into: Float
    at: tuple[int, ...]
    """Index into `into`; its first part is the turn."""


def collect_evidence(
    judge: Judge, cache: VerdictCache, levels: int, episodes: Mapping[str, Episode], trajectories: Sequence[Trajectory]
) -> list[Evidence]:
    """Evidence of each trajectory, in order; the facts of a turn depend on the actions up to it only.

    - level: each reply against each window it falls in (by itself, not with earlier ones), 0..levels-1; an exact
      duplicate of an earlier reply in that window is not judged again. A malformed action says nothing: 0.
    - repeat: each reply against all distinct earlier ones, history included; exactly said before is 1 and nothing
      said before is 0, without asking. A malformed action repeats nothing: 0.
    - a verdict that the judge abstains from stays NaN, and the turn is marked as abstained.

    Raises KeyError for a trajectory whose episode is not in `episodes`.
    """
    asks: list[_Ask] = []
    collected = [_observe(episodes[trajectory.episode], trajectory, levels, asks) for trajectory in trajectories]
    for ask, verdict in zip(asks, cache.grade_all(judge, [ask.item for ask in asks]), strict=True):
        if verdict.score is None:
            ask.evidence.abstained[ask.at[0]] = True
        else:
            ask.into[ask.at] = verdict.score
    return collected


def _observe(episode: Episode, trajectory: Trajectory, levels: int, asks: list[_Ask]) -> Evidence:
    """The evidence that needs no judge; appends to `asks` what does."""
    evidence = _silent(episode, trajectory)
    earlier = list(dict.fromkeys(turn.text for turn in episode.history if turn.text is not None))
    said: list[set[str]] = [set() for _ in episode.windows]
    for turn, (time, action) in enumerate(zip(episode.grid.times, trajectory.actions, strict=True)):
        if action.kind == "silence":
            continue
        windows, text = list(episode.windows_at(time)), action.text
        evidence.outside[turn] = not windows
        evidence.repeats[turn] = 0
        if action.kind == "malformed":
            evidence.levels[turn, windows] = 0
            continue
        evidence.prefix_chars[turn] = max((_common(text, before) for before in earlier), default=0)
        for w in (w for w in windows if text not in said[w]):
            said[w].add(text)
            window = episode.windows[w]
            item = Grade("level", episode.question_at(window.reply[0]), window.text, text, levels)
            asks.append(_Ask(item, evidence, evidence.levels, (turn, w)))
        if text in earlier:
            evidence.repeats[turn] = 1
        elif earlier:
            evidence.repeats[turn] = np.nan
            item = Grade(
                "repeat", episode.question_at(time), "\n".join(" ".join(before.split()) for before in earlier), text, 2
            )
            asks.append(_Ask(item, evidence, evidence.repeats, (turn,)))
        if text not in earlier:
            earlier.append(text)
    return evidence


def _silent(episode: Episode, trajectory: Trajectory) -> Evidence:
    turns = episode.turns
    return Evidence(
        episode=episode.id,
        index=trajectory.index,
        kinds=tuple(action.kind for action in trajectory.actions),
        levels=np.full((turns, len(episode.windows)), np.nan),
        repeats=np.full(turns, np.nan),
        outside=np.zeros(turns, bool),
        prefix_chars=np.zeros(turns, np.int64),
        abstained=np.zeros(turns, bool),
    )


def _common(one: str, other: str) -> int:
    return len(os.path.commonprefix([one, other]))  # noqa: RUF071 - characters are what is counted
