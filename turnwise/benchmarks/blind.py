"""Blind baselines: what a policy scores that never looks. A result is read beside them."""

from collections.abc import Iterable, Mapping, Sequence, Set
from types import ModuleType

from turnwise.benchmarks.items import Item, Predictions, Reply
from turnwise.config import Stream
from turnwise.episodes import Episode
from turnwise.judging import Grade, Verdict

SAID = "."
"""What the metronome says: it answers nothing, so it is worth level 0 without asking a judge."""
LETTER = "A"
"""What it says to a multiple-choice question."""
PERIODS = (2.0, 4.0, 8.0, 16.0)
"""Periods of the metronomes of `rows`, seconds."""
DELAYS = (2.0, 5.0, 8.0)
"""Seconds from the question to the one reply of `rows`."""
CONSTANTS = tuple(
    {"letter": letter, "count": str(count), "yes_no": word}
    for count, (letter, word) in enumerate((("A", "No"), ("B", "Yes"), ("C", "No"), ("D", "Yes")))
)
"""What is always said to multiple choices, to counts and to yes-or-no questions."""
SECOND = Stream(frame_interval=1.0, frames_per_turn=1)
"""The grid of `rows`: a decision a second."""


def worthless(_: Grade) -> Verdict:
    """The verdict on `SAID`: lowest level, no repeat."""
    return Verdict(0.0, None)


def silent(items: Iterable[Item]) -> dict[str, list[Reply]]:
    """No reply to anything, by item key."""
    return {item.key: [] for item in items}


def metronome(episodes: Sequence[Episode], period: float, choices: Set[str]) -> dict[str, list[Reply]]:
    """`SAID` at the first decision of every `period` seconds from the start of the stream, by episode id.

    An episode whose id is in `choices` is answered with `LETTER` at its last decision instead.
    """
    return {
        episode.id: [Reply(episode.grid.times[-1], LETTER)]
        if episode.id in choices
        else [Reply(time, SAID) for time in beats(episode, period)]
        for episode in episodes
    }


def beats(episode: Episode, period: float) -> list[float]:
    """The first decision times of every `period` seconds from the start of an episode."""
    start, count = episode.grid.start, 0
    found = []
    for time in episode.grid.times:
        passed = int((time - start) / period + 1e-9)
        if passed > count:
            count = passed
            found.append(time)
    return found


def rows(benchmark: ModuleType, items: Sequence[Item]) -> dict[str, Predictions]:
    """Blind predictions by the name of their row, on a grid of a decision a second from each question.

    Metronomes and single replies say what the question quotes to be said, else a dot, and `LETTER` to a multiple
    choice; the constants are silent where nothing is asked to be answered at once.
    """
    streams = [item for item in items if item.asked is None]
    choices = [item for item in items if item.asked is not None]
    found: dict[str, Predictions] = {"silent": silent(items)}
    if streams:
        episodes = {item.key: benchmark.episode(item, SECOND, float("inf")) for item in streams}
        letters = _answers(choices, CONSTANTS[0])
        for period in PERIODS:
            times = {key: beats(episode, period) for key, episode in episodes.items()}
            found[f"every {period:g} s"] = _spoken(streams, times) | letters
        for delay in DELAYS:
            times = {key: beats(episode, delay)[:1] for key, episode in episodes.items()}
            found[f"once after {delay:g} s"] = _spoken(streams, times) | letters
    if choices:
        wanted = list(dict.fromkeys(item.wants for item in choices))
        for constant in CONSTANTS:
            label = ", ".join(constant[kind] for kind in wanted)
            found[f"always {label}"] = silent(streams) | _answers(choices, constant)
    return found


def _spoken(streams: Sequence[Item], times: Mapping[str, Sequence[float]]) -> dict[str, list[Reply]]:
    return {item.key: [Reply(time, item.parroted) for time in times[item.key]] for item in streams}


def _answers(choices: Iterable[Item], constant: Mapping[str, str]) -> dict[str, list[Reply]]:
    return {item.key: [Reply(item.ends, constant[item.wants])] for item in choices}
