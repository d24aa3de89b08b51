"""Blind baselines: what a policy scores that never looks. A result is read beside them."""

from collections.abc import Sequence, Set

from turnwise.benchmarks.items import Reply
from turnwise.episodes import Episode
from turnwise.judging import Grade, Verdict

SAID = "."
"""What the metronome says: it answers nothing, so it is worth level 0 without asking a judge."""
LETTER = "A"
"""What it says to a multiple-choice question."""


def worthless(_: Grade) -> Verdict:
    """The verdict on `SAID`: lowest level, no repeat."""
    return Verdict(0.0, None)


def silent(episodes: Sequence[Episode]) -> dict[str, list[Reply]]:
    """No reply to anything, by episode id."""
    return {episode.id: [] for episode in episodes}


def metronome(episodes: Sequence[Episode], period: float, choices: Set[str]) -> dict[str, list[Reply]]:
    """`SAID` at the first decision of every `period` seconds from the start of the stream, by episode id.

    An episode whose id is in `choices` is answered with `LETTER` at its last decision instead.
    """
    return {
        episode.id: [Reply(episode.grid.times[-1], LETTER)] if episode.id in choices else _beats(episode, period)
        for episode in episodes
    }


def _beats(episode: Episode, period: float) -> list[Reply]:
    start, beats = episode.grid.start, 0
    replies = []
    for time in episode.grid.times:
        passed = int((time - start) / period + 1e-9)
        if passed > beats:
            beats = passed
            replies.append(Reply(time, SAID))
    return replies
