"""Scene scripts: which object is on screen when. One object at a time, with empty stretches between.

Lengths are drawn in decision steps, so a script loosely follows the grid: an appearance lasts at least two decision
times and starts at no predictable one.
"""

from dataclasses import dataclass

import numpy as np

from turnwise.worlds.language import COLOURS, SURFACES

FEWEST_TURNS = 7
"""The shortest clip in which two appearances always fit."""
FIRST, VISIBLE, GAP, LONG_GAP = (0.25, 2.0), (2.25, 3.5), (0.75, 2.5), (3.0, 5.0)
"""Ranges in decision steps: before the first appearance, of an appearance, between two, and now and then between two."""
MOST = 5
"""Appearances of a clip at most."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is spoken of; its text is a window's reference."""

    surface: str
    colour: str

    def __str__(self) -> str:
        return f"{self.surface} and {self.colour}"

    def has(self, word: str) -> bool:
        """Whether a colour or a surface is this one's."""
        return word in (self.surface, self.colour)


@dataclass(frozen=True, slots=True)
class Appearance:
    """A look on screen from `start` (shown) to `end` (no longer shown), seconds."""

    look: Look
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Scene:
    """A clip's script. Its last frame is the one at the last decision time."""

    turns: int
    step: float
    """Seconds between decision times."""
    fps: int
    appearances: tuple[Appearance, ...]

    @property
    def frames(self) -> int:
        """Number of frames."""
        return round(self.turns * self.step * self.fps) + 1

    @property
    def duration(self) -> float:
        """Seconds, the last frame's own time included."""
        return self.frames / self.fps

    def at(self, time: float) -> Appearance | None:
        """What is on screen at a time."""
        return next((a for a in self.appearances if a.start <= time < a.end), None)

    def new(self) -> tuple[Appearance, ...]:
        """Appearances of a look for the first time; coming again is not new."""
        looks = [a.look for a in self.appearances]
        return tuple(a for i, a in enumerate(self.appearances) if a.look not in looks[:i])


def draw_scene(rng: np.random.Generator, turns: int, step: float, fps: int) -> Scene:
    """A random script of `turns` decision steps of `step` seconds, times on the frame grid of `fps`."""
    looks: list[Look] = []
    appearances: list[Appearance] = []
    start = rng.uniform(*FIRST)
    while len(appearances) < MOST and (end := start + rng.uniform(*VISIBLE)) <= turns - 1:
        looks.append(_next_look(rng, looks))
        first, last = (round(time * step * fps) / fps for time in (start, end))
        appearances.append(Appearance(looks[-1], first, last))
        start = end + rng.uniform(*(LONG_GAP if rng.random() < 0.25 else GAP))
    return Scene(turns, step, fps, tuple(appearances))


def _next_look(rng: np.random.Generator, seen: list[Look]) -> Look:
    """A look unlike the one just seen: an earlier one again, one that shares a word with an earlier one, or any."""
    before = [look for look in seen if look != seen[-1]]
    if before and rng.random() < 0.35:
        return before[rng.integers(len(before))]
    look = Look(str(rng.choice(SURFACES)), str(rng.choice(COLOURS)))
    if seen and rng.random() < 0.5:
        kin = seen[rng.integers(len(seen))]
        look = Look(kin.surface, look.colour) if rng.random() < 0.5 else Look(look.surface, kin.colour)
    return look if not seen or look != seen[-1] else _next_look(rng, seen)
