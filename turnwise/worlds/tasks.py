"""Scripts to episodes: five kinds of query with the windows in which an answer is expected.

A window's text is the reference: the informative words alone. Its related span is the appearance, and its reply span
ends a second later, as in ProactiveVideoQA.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from turnwise.config import Stream
from turnwise.episodes import Episode, Grid, HistoryTurn, Query, Window
from turnwise.worlds import language as say
from turnwise.worlds.scenes import Appearance, Look, Scene

FEW = range(2, 5)
"""Numbers of windows of an episode that expects several answers."""
GRACE = 1.0
"""Seconds after an appearance in which a reply still counts."""
HISTORY = 0.3
"""Share of `new_object` episodes that start after given turns, where the script allows it."""
QUOTED, SUBTITLED = 0.4, 0.25
"""Shares of `one_event` episodes whose query quotes a word to say, and that carry subtitles."""


class Asked(NamedTuple):
    """Queries, windows and the given turns before the first decision."""

    queries: tuple[Query, ...]
    windows: tuple[Window, ...]
    history: tuple[HistoryTurn, ...] = ()


def make_episode(
    rng: np.random.Generator, task: str, scene: Scene, stream: Stream, *, name: str, clip: str
) -> Episode | None:
    """An episode of that task over a whole clip, or None where the script does not allow one."""
    asked = TASKS[task](rng, scene)
    if asked is None:
        return None
    history = tuple(turn.model_copy(update={"frame_times": _shown(turn.time, stream)}) for turn in asked.history)
    grid = Grid(
        start=history[-1].time if history else 0.0,
        frame_interval=stream.frame_interval,
        frames_per_turn=stream.frames_per_turn,
        turns=scene.turns - len(history),
    )
    queries, windows = asked.queries, asked.windows
    return Episode(id=name, clip=clip, task=task, grid=grid, queries=queries, windows=windows, history=history)


def _shown(time: float, stream: Stream) -> tuple[float, ...]:
    """Times of the frames of a turn that ends at `time`."""
    return tuple(time - stream.frame_interval * k for k in reversed(range(stream.frames_per_turn)))


def window(scene: Scene, appearance: Appearance, text: str) -> Window:
    """The window of an appearance."""
    span = (appearance.start, appearance.end)
    return Window(text=text, related=span, reply=(span[0], min(span[1] + GRACE, scene.duration)))


def once(scene: Scene) -> list[Appearance]:
    """Appearances of looks that come only once."""
    looks = [a.look for a in scene.appearances]
    return [a for a in scene.appearances if looks.count(a.look) == 1]


def counted(scene: Scene) -> dict[str, list[Appearance]]:
    """For each colour and surface with two to four appearances, those."""
    matching = {w: [a for a in scene.appearances if a.look.has(w)] for w in (*say.COLOURS, *say.SURFACES)}
    return {word: found for word, found in matching.items() if len(found) in FEW}


def new_windows(scene: Scene) -> tuple[Window, ...]:
    """A window for each new look."""
    return tuple(window(scene, a, str(a.look)) for a in scene.new())


def count_windows(scene: Scene, word: str) -> tuple[Window, ...]:
    """A window for each appearance that a colour or a surface matches, with the running count."""
    found = zip(say.NUMBERS, counted(scene)[word], strict=False)
    return tuple(window(scene, a, number) for number, a in found)


def step_windows(scene: Scene) -> tuple[Window, ...]:
    """A window for each appearance, numbered."""
    found = zip(say.NUMBERS, scene.appearances, strict=False)
    return tuple(window(scene, a, f"{number}, {a.look}") for number, a in found)


def subtitles(rng: np.random.Generator, scene: Scene) -> tuple[Query, ...]:
    """Two subtitles at random times."""
    times = sorted(rng.uniform(0.5, scene.duration - 1, size=2).round(2).tolist())
    return tuple(Query(text=str(rng.choice(say.SUBTITLES)), time=time) for time in times)


def multiple_choice(rng: np.random.Generator, look: Look) -> tuple[str, tuple[str, ...], str]:
    """A question about a look on screen: the question, its four options (without letters) and the right one."""
    ask_colour = rng.random() < 0.5
    right, family = (look.colour, say.COLOURS) if ask_colour else (look.surface, say.SURFACES)
    others = rng.choice([word for word in family if word != right], size=3, replace=False)
    options = tuple(str(word) for word in rng.permutation([right, *others]))
    return (say.WHAT_COLOUR if ask_colour else say.WHAT_SURFACE), options, right


def lettered_choice(rng: np.random.Generator, look: Look) -> tuple[str, str]:
    """A multiple choice as a query, and its reference `B. red`."""
    question, options, right = multiple_choice(rng, look)
    lettered = say.lettered(options)
    return say.four_way(question, lettered), lettered[options.index(right)]


def _new_object(rng: np.random.Generator, scene: Scene) -> Asked | None:
    windows = new_windows(scene)
    if len(windows) not in FEW:
        return None
    query = (Query(text=say.EVERY_NEW, time=0.0),)
    given = math.ceil(windows[0].reply[1] / scene.step)
    if len(windows) - 1 not in FEW or rng.random() >= HISTORY:
        return Asked(query, windows)
    said = math.ceil(windows[0].reply[0] / scene.step)
    reply = str(rng.choice(say.replies("new_object", windows[0].text)))
    history = (
        HistoryTurn(time=t * scene.step, frame_times=(), text=reply if t == said else None) for t in range(1, given + 1)
    )
    return Asked(query, tuple(w for w in windows if w.reply[0] > given * scene.step), tuple(history))


def _one_event(rng: np.random.Generator, scene: Scene) -> Asked | None:
    if not (found := once(scene)):
        return None
    event = found[rng.integers(len(found))]
    word = event.look.colour if rng.random() < 0.5 else event.look.surface
    look = str(event.look)
    text = say.output_when(look, word) if rng.random() < QUOTED else say.tell_when(look)
    spoken = subtitles(rng, scene) if rng.random() < SUBTITLED else ()
    return Asked((Query(text=text, time=0.0), *spoken), (window(scene, event, look),))


def _count(rng: np.random.Generator, scene: Scene) -> Asked | None:
    if not (words := list(counted(scene))):
        return None
    word = words[rng.integers(len(words))]
    return Asked((Query(text=say.how_often(say.activity(word)), time=0.0),), count_windows(scene, word))


def _steps(rng: np.random.Generator, scene: Scene) -> Asked | None:
    if len(scene.appearances) not in FEW:
        return None
    return Asked((Query(text=say.steps_of(str(rng.choice(say.TUTORIALS))), time=0.0),), step_windows(scene))


def _choice(rng: np.random.Generator, scene: Scene) -> Asked | None:
    size = min(len(scene.appearances), int(rng.integers(1, 4)))
    if not size:
        return None
    queries, windows = [], []
    for i in sorted(rng.choice(len(scene.appearances), size=size, replace=False)):
        appearance = scene.appearances[i]
        time = round(rng.uniform(appearance.start, appearance.end - scene.step - 1 / scene.fps), 2)
        query, reference = lettered_choice(rng, appearance.look)
        queries.append(Query(text=query, time=time))
        span, end = (time, time + scene.step), min(time + 2 * scene.step, scene.duration)
        windows.append(Window(text=reference, related=span, reply=(time, end)))
    return Asked(tuple(queries), tuple(windows))


TASKS: dict[str, Callable[[np.random.Generator, Scene], Asked | None]] = {
    "new_object": _new_object,
    "one_event": _one_event,
    "count": _count,
    "steps": _steps,
    "choice": _choice,
}
