"""Scripts to frames: a large drifting box or disc before a grey, grainy wall in flickering light."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from turnwise.worlds.scenes import Appearance, Look, Scene

Floats = NDArray[np.float32]

HUES = {
    "red": (1.0, 0.0, 0.0),
    "yellow": (1.0, 1.0, 0.0),
    "green": (0.0, 1.0, 0.0),
    "cyan": (0.0, 1.0, 1.0),
    "blue": (0.0, 0.0, 1.0),
    "purple": (1.0, 0.0, 1.0),
}
SHADES = {"dark": (15.0, 85.0), "plain": (20.0, 190.0), "bright": (130.0, 255.0), "striped": (10.0, 230.0)}
"""Value of a channel that the hue lacks, and of one that it has; stripes alternate with near-black."""
GRAIN, FLICKER = 2.0, 1.0
"""Standard deviations of the wall's grain and of a frame's brightness, of 255."""


def render(rng: np.random.Generator, scene: Scene, size: int) -> Iterator[NDArray[np.uint8]]:
    """The frames of a scene, uint8 [size, size, 3] each, at `scene.fps` from 0 s."""
    wall = _wall(rng, size)
    flicker = rng.normal(0, FLICKER, scene.frames).astype(np.float32)
    shapes = {appearance: _Shape(rng, appearance, size) for appearance in scene.appearances}
    for index in range(scene.frames):
        time = index / scene.fps
        image = wall.copy()
        if (appearance := scene.at(time)) is not None:
            shapes[appearance].draw(image, time)
        yield np.clip(image + flicker[index], 0, 255).astype(np.uint8)


def _wall(rng: np.random.Generator, size: int) -> Floats:
    """A grey gradient [size, size, 3] in a random direction."""
    ramp = np.linspace(-1, 1, size, dtype=np.float32)
    slope = rng.uniform(-12, 12, 2)
    grey = rng.uniform(105, 140) + slope[0] * ramp[:, None] + slope[1] * ramp[None, :]
    grey += rng.normal(0, GRAIN, (size, size))
    return np.repeat(grey[..., None], 3, axis=2).astype(np.float32)


class _Shape:
    """The body of one appearance: its place, its drift and its surface."""

    def __init__(self, rng: np.random.Generator, appearance: Appearance, size: int):
        self.start, self.size = appearance.start, size
        self.radius = rng.uniform(0.32, 0.42, 2) * size
        self.centre = (0.5 + rng.uniform(-0.1, 0.1, 2)) * size
        self.swing, self.pace, self.phase = rng.uniform(1, 4, 2), rng.uniform(0.5, 1.5), rng.uniform(0, 6.3)
        self.round = rng.random() < 0.5
        self.paint = _paint(rng, appearance.look, size)

    def draw(self, image: Floats, time: float) -> None:
        """Lay the shape over an image [size, size, 3] in place."""
        drift = self.swing * np.sin(self.pace * (time - self.start) + self.phase + np.array([0.0, 1.6]))
        ys, xs = (np.arange(self.size) - c for c in self.centre + drift)
        dy, dx = np.abs(ys / self.radius[0])[:, None], np.abs(xs / self.radius[1])[None, :]
        inside = dy**2 + dx**2 <= 1.2 if self.round else np.maximum(dy, dx) <= 1
        image[inside] = self.paint[inside]


def _paint(rng: np.random.Generator, look: Look, size: int) -> Floats:
    """The colour of each pixel [size, size, 3]."""
    low, high = SHADES[look.surface]
    colour = low + (high - low) * np.array(HUES[look.colour], np.float32) + rng.uniform(-6, 6)
    paint = np.broadcast_to(colour, (size, size, 3)).astype(np.float32)
    if look.surface == "striped":
        width = max(2, size // 14)
        paint[(np.arange(size) // width) % 2 == rng.integers(2)] = 10
    return paint
