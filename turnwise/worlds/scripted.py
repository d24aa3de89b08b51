"""Policies that know the answers, to check a reward before training: oracle > late > silent > repeater on average."""

from typing import Literal

from turnwise.episodes import Episode
from turnwise.worlds.language import replies

Who = Literal["oracle", "late", "silent", "repeater"]


def scripted(episode: Episode, who: Who) -> tuple[str | None, ...]:
    """The action of each turn [T]; None is silence.

    `oracle` answers each window at its first decision time, `late` one turn later, `silent` never, and `repeater`
    says the right thing at every turn from the first window on: the answer of the window that opened last.
    """
    said: list[str | None] = [None] * episode.turns
    if who == "silent":
        return tuple(said)
    for window in episode.windows:
        since = [turn for turn, time in enumerate(episode.grid.times) if time >= window.reply[0]]
        for turn in since if who == "repeater" else since[who == "late" :][:1]:
            said[turn] = replies(episode.task, window.text)[0]
    return tuple(said)
