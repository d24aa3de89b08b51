"""What the policy imitates before RL: streamed demonstrations, imperfect as web supervision is, and single-frame items.

Left out: several objects in a frame, thoughts that are wrong.
"""

import numpy as np

from turnwise.config import Data, Stream
from turnwise.episodes import Demonstration, Episode, Grid, Query, Window
from turnwise.worlds import language as say
from turnwise.worlds.scenes import Scene
from turnwise.worlds.tasks import lettered_choice

EMPTY = 0.15
"""Share of single-frame items whose frame shows no object."""
CAPTION_TASKS, CAPTION_SHARES = ("caption", "amount", "choice"), (0.5, 0.1, 0.4)
"""Kinds of single-frame items and their shares, where the frame shows an object."""


def demonstrate(rng: np.random.Generator, episode: Episode, data: Data) -> Demonstration:
    """Answer each window, at its first decision time or, as `data` says, late, twice, wrongly or not at all.

    Some of the silent turns after the first query are turned into a stray reply, where no window is open. A thought, where
    `data.thoughts` asks for them, is what is to be seen that was asked for, whatever is said.
    """
    times = episode.grid.times
    actions: list[str | None] = [None] * episode.turns
    for window in episode.windows:
        if rng.random() >= data.missed:
            turns = [t for t, time in enumerate(times) if window.reply[0] <= time]
            _answer(
                rng, actions, turns[rng.random() < data.late :], _spoken(rng, episode.task, window, data.wrong), data
            )
    for turn, time in enumerate(times):
        idle = actions[turn] is None and time >= episode.queries[0].time and not episode.windows_at(time)
        if idle and rng.random() < data.stray:
            window = episode.windows[rng.integers(len(episode.windows))]
            actions[turn] = _spoken(rng, episode.task, window, 0.5)
    thoughts = tuple(say.thought(_to_be_seen(episode, time)) for time in times) if data.thoughts else ()
    return Demonstration(episode=episode, actions=tuple(actions), thoughts=thoughts)


def _to_be_seen(episode: Episode, time: float) -> str | None:
    """The text of the latest window whose evidence is on screen."""
    shown = [w.text for w in episode.windows if w.related[0] <= time <= w.related[1]]
    return shown[-1] if shown else None


def _answer(rng: np.random.Generator, actions: list[str | None], turns: list[int], reply: str, data: Data) -> None:
    """Say the reply at the first of `turns` and now and then once more at one of the next two, where nothing is said."""
    if turns:
        actions[turns[0]] = reply
    if len(turns) > 1 and rng.random() < data.repeated:
        again = turns[min(len(turns) - 1, int(rng.integers(1, 3)))]
        actions[again] = actions[again] or reply


def _spoken(rng: np.random.Generator, task: str, window: Window, wrong: float) -> str:
    text = say.mistaken(rng, window.text) if rng.random() < wrong else window.text
    return str(rng.choice(say.replies(task, text)))


def make_caption(
    rng: np.random.Generator, scene: Scene, stream: Stream, *, name: str, clip: str, thoughts: bool = False
) -> Demonstration:
    """A single-frame item: a question about one frame of a clip, and its answer, after a thought about what is seen."""
    appearance = scene.appearances[rng.integers(len(scene.appearances))]
    task = str(rng.choice(CAPTION_TASKS, p=CAPTION_SHARES))
    if rng.random() < EMPTY:
        time, task = _empty_time(rng, scene, stream), task if task == "amount" else "caption"
        query, reply = (say.HOW_MANY, say.NONE_COUNTED) if task == "amount" else (say.WHAT_SEEN, say.NOTHING_SEEN)
    else:
        soonest = max(appearance.start, stream.frame_interval)
        time = float(rng.integers(round(soonest * scene.fps), round(appearance.end * scene.fps))) / scene.fps
        query, reply = _about(rng, task, scene, time)
    grid = Grid(start=time - stream.frame_interval, frame_interval=stream.frame_interval, turns=1)
    episode = Episode(id=name, clip=clip, task=task, grid=grid, queries=(Query(text=query, time=0.0),), windows=())
    seen = scene.at(time)
    thought = say.thought(str(seen.look) if seen else None)
    return Demonstration(episode=episode, actions=(reply,), thoughts=(thought,) if thoughts else ())


def _empty_time(rng: np.random.Generator, scene: Scene, stream: Stream) -> float:
    frames = range(round(stream.frame_interval * scene.fps), scene.frames)
    empty = [frame / scene.fps for frame in frames if scene.at(frame / scene.fps) is None]
    return empty[rng.integers(len(empty))]


def _about(rng: np.random.Generator, task: str, scene: Scene, time: float) -> tuple[str, str]:
    """A query about the object on screen and its reply."""
    appearance = scene.at(time)
    assert appearance is not None
    if task == "caption":
        return say.WHAT_SEEN, say.SEEN.format(appearance.look)
    if task == "amount":
        return say.HOW_MANY, say.COUNTED.format(appearance.look)
    query, reference = lettered_choice(rng, appearance.look)
    return query, str(rng.choice(say.replies("choice", reference)))
