"""PAUC, the area under the curve of what had been answered by when (ProactiveVideoQA, arXiv 2507.09313, section 3)."""

from collections.abc import Sequence

import numpy as np

from turnwise.records import Float

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


def prefix_pauc(levels: Float, times: Float, spans: Float, top: int, omega: float) -> Float:
    """PAUC of each window [W, T + 1] of the trajectory cut after turn t = 0..T, by one scan: O(T W).

    A reply changes the curve from its moved time to the end only, so it adds (its score - the score it replaces)
    times the share of the span that is left. Equals `pauc` of each prefix.

    Args:
        levels: [T, W] score 0..top of the reply at turn t for window w, NaN where there is none.
        times: [T] decision times in seconds. spans: [W, 2] in seconds. top, omega: as for `pauc`.
    """
    scored = ~np.isnan(levels)
    latest = np.maximum.accumulate(np.where(scored, np.arange(1, len(levels) + 1)[:, None], 0), axis=0)
    held = np.vstack([np.full_like(levels[:1], START), levels])
    before = np.vstack([np.zeros_like(latest[:1]), latest[:-1]])
    step = np.where(scored, levels - np.take_along_axis(held, before, axis=0), 0.0)
    start, end = spans.T
    left = 1 - (1 - omega) * (times[:, None] - start) / (end - start)
    curve = np.cumsum(np.vstack([held[:1], step * left]), axis=0)
    return curve.T / top
