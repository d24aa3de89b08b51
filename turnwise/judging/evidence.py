"""From trajectories to evidence: what must be judged is listed, graded in one go, and filled in."""

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.episodes import Episode
from turnwise.judging.base import Grade, Judge, Verdicts
from turnwise.records import CHECKPOINTS, Asks, Evidence, Float, Trajectory

Asking = Callable[[Episode], Asks]


def nothing_more(_: Episode) -> Asks:
    """What a reward asks for that the facts of every evidence suffice."""
    return Asks()


@dataclass(frozen=True)
class _Ask:
    """A grade that is wanted, and where its score goes."""

    item: Grade
    evidence: Evidence
    into: Float
    at: tuple[int, ...]
    """Index into `into`; its first part is the turn."""


def collect_evidence(
    judge: Judge,
    cache: Verdicts,
    levels: int,
    episodes: Mapping[str, Episode],
    trajectories: Sequence[Trajectory],
    asking: Asking = nothing_more,
) -> list[Evidence]:
    """Evidence of each trajectory, in order; the facts of a turn depend on the actions up to it only.

    - level: each reply against each window it falls in (by itself, not with earlier ones), 0..levels-1; an exact
      duplicate of an earlier reply in that window is not judged again. A malformed action says nothing: 0.
    - repeat: each reply against all distinct earlier ones, history included; exactly said before is 1 and nothing
      said before is 0, without asking. A malformed action repeats nothing: 0.
    - what the reward asks for (`Reward.asks`): levels of replies against further windows, and a rubric of the dialogue
      up to each reply.
    - a verdict that the judge abstains from stays NaN, and the turn is marked as abstained.

    Raises KeyError for a trajectory whose episode is not in `episodes`, UserError for too many abstentions.
    """
    collected, asks = _observe_all(levels, episodes, trajectories, asking)
    for ask, verdict in zip(asks, cache.grade_all(judge, [ask.item for ask in asks]), strict=True):
        if verdict.score is None:
            ask.evidence.abstained[ask.at[0]] = True
        else:
            ask.into[ask.at] = verdict.score
    for evidence in collected:
        if evidence.rubric is not None:
            evidence.rubric[:] = _standing(evidence.rubric)
    return collected


def wanted(
    levels: int,
    episodes: Mapping[str, Episode],
    trajectories: Sequence[Trajectory],
    asking: Asking = nothing_more,
) -> list[Grade]:
    """What `collect_evidence` has a judge asked, in order; equal ones stand as often as they are wanted."""
    return [ask.item for ask in _observe_all(levels, episodes, trajectories, asking)[1]]


def _observe_all(
    levels: int, episodes: Mapping[str, Episode], trajectories: Sequence[Trajectory], asking: Asking
) -> tuple[list[Evidence], list[_Ask]]:
    asks: list[_Ask] = []
    extra = {name: asking(episodes[name]) for name in {one.episode for one in trajectories}}
    collected = []
    for one in trajectories:
        episode, more = episodes[one.episode], extra[one.episode]
        evidence = _silent(episode, one, more)
        _observe(episode, one, levels, evidence, asks)
        _observe_more(episode, one, levels, more, evidence, asks)
        collected.append(evidence)
    return collected, asks


def _observe(episode: Episode, trajectory: Trajectory, levels: int, evidence: Evidence, asks: list[_Ask]) -> None:
    """Fill in the facts that need no judge; append to `asks` what does."""
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


def _observe_more(
    episode: Episode, trajectory: Trajectory, levels: int, more: Asks, evidence: Evidence, asks: list[_Ask]
) -> None:
    """Append what the reward asked for: each reply against its further windows, and the dialogue up to it."""
    expected = "\n".join(_line(window.reply[0], window.text) for window in episode.windows)
    dialogue: list[str] = []
    for turn, (time, action) in enumerate(zip(episode.grid.times, trajectory.actions, strict=True)):
        if action.kind != "reply":
            continue
        if evidence.answers is not None and more.answers is not None:
            for w in np.flatnonzero(more.answers[turn]).tolist():
                window = episode.windows[w]
                item = Grade("level", episode.question_at(window.reply[0]), window.text, action.text, levels)
                asks.append(_Ask(item, evidence, evidence.answers, (turn, w)))
        if evidence.rubric is not None:
            dialogue.append(_line(time, action.text))
            item = Grade("dialogue", episode.question_at(time), expected, "\n".join(dialogue), CHECKPOINTS + 1)
            asks.append(_Ask(item, evidence, evidence.rubric, (turn,)))


def _standing(verdicts: Float) -> Float:
    """[T] 0 before the first verdict, then the latest one."""
    known = np.concatenate([[0.0], verdicts])
    return known[np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))][1:]


def _line(time: float, text: str) -> str:
    return f"{time:.1f} s: {' '.join(text.split())}"


def _silent(episode: Episode, trajectory: Trajectory, more: Asks) -> Evidence:
    turns, windows = episode.turns, len(episode.windows)
    return Evidence(
        episode=episode.id,
        index=trajectory.index,
        kinds=tuple(action.kind for action in trajectory.actions),
        levels=np.full((turns, windows), np.nan),
        repeats=np.full(turns, np.nan),
        outside=np.zeros(turns, bool),
        prefix_chars=np.zeros(turns, np.int64),
        abstained=np.zeros(turns, bool),
        answers=None if more.answers is None else np.full((turns, windows), np.nan),
        rubric=np.full(turns, np.nan) if more.rubric else None,
        thought_tokens=np.array([action.thought_tokens for action in trajectory.actions]),
    )


def _common(one: str, other: str) -> int:
    return len(os.path.commonprefix([one, other]))  # noqa: RUF071 - characters are what is counted
