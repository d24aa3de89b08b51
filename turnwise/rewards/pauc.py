"""PAUC, the area under the curve of what had been answered by when (ProactiveVideoQA, arXiv 2507.09313, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Bool, Float

START = 0.5
"""Score before the first reply, on the scale 0..top: no answer stands above a wrong one."""


def pauc(points: Sequence[tuple[float, float]], span: tuple[float, float], top: int, omega: float) -> float:
    """PAUC of one window, 0 to 1: the mean of a step curve over the span, divided by `top`.

    The curve is 0.5 from the start of the span and takes each point's score at its moved time
    start + (1 - omega) (time - start), the last one held to the end. No point gives 0.5 / top.

    Args:
        points: (time in seconds, score 0..top) in time order, inside the span.
        span: (start, end) in seconds.
        top: the best score, levels - 1.
        omega: 0 counts timeliness in full, 1 only the last score.
    """
    start, end = span
    times = [start, *(start + (1 - omega) * (time - start) for time, _ in points), end]
    scores = [START, *(score for _, score in points)]
    area = sum(score * (until - since) for score, since, until in zip(scores, times, times[1:], strict=False))
    return float(area / ((end - start) * top))


@dataclass(frozen=True)
class Reachable:
    """The windows of an episode that count: those that hold a decision time; the others nobody can answer."""

    times: Float
    """[T] decision times, seconds."""
    start: Float
    """[W] seconds."""
    length: Float
    """[W] seconds."""
    inside: Bool
    """[W] whether it counts."""

    @classmethod
    def of(cls, episode: Episode, begun: bool = False) -> "Reachable":
        """From the grid and the windows of an episode; `begun` counts those that start by the last decision instead."""
        grid = episode.grid
        times = grid.start + grid.step * np.arange(1, grid.turns + 1, dtype=np.float64)
        start, end = np.array([window.reply for window in episode.windows]).reshape(-1, 2).T
        inside = start <= times[-1] if begun else ((times[:, None] >= start) & (times[:, None] <= end)).any(0)
        return cls(times, start, end - start, np.asarray(inside))


def prefix_pauc(windows: Sequence[Reachable], levels: Sequence[Float], top: int, omega: float) -> Float:
    """[B, T + 1] mean PAUC over the reachable windows of B trajectories cut after turn t = 0..T, by one scan.

    A reply changes its window's curve from its moved time to the end only, so it adds (its score - the score it
    replaces) times the share of the span that is left: O(T W) to find the replies, and a few operations a reply. Equals
    the mean of `pauc` over each prefix; 0 without a reachable window. T is the longest; shorter rows hold their last value.

    Args:
        windows: of each trajectory's episode, [B].
        levels: [B] of [T, W] score 0..top of the reply at turn t for window w, NaN where there is none.
        top, omega: as for `pauc`.
    """
    turns = max(map(len, levels))
    share = np.array([1.0 / (max(1, one.inside.sum()) * top) for one in windows])
    found = [np.nonzero(~np.isnan(values.T) & one.inside[:, None]) for one, values in zip(windows, levels, strict=True)]
    counts = [len(t) for _, t in found]
    row = np.repeat(np.arange(len(levels)), counts)
    w, t = (np.concatenate([at[axis] for at in found]) for axis in (0, 1))
    score, time, start, length = np.concatenate(
        [
            np.array([values[t, w], one.times[t], one.start[w], one.length[w]])
            for one, values, (w, t) in zip(windows, levels, found, strict=True)
        ],
        axis=1,
    )
    held = np.roll(score, 1)
    held[np.flatnonzero(np.diff(row, prepend=-1) | np.diff(w, prepend=-1))] = START
    gain = (score - held) * (1 - (1 - omega) * (time - start) / length) * share[row]
    curve = np.zeros((len(levels), turns + 1))
    np.add.at(curve, (row, t + 1), gain)
    curve[:, 0] = [START * part * one.inside.sum() for part, one in zip(share, windows, strict=True)]
    return np.cumsum(curve, axis=1)
