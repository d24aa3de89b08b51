"""M-RoPE positions of text and images, for both families: computed here and always passed to the model.

transformers keeps a `rope_deltas` from an earlier call in the module and trusts it, which is wrong for a conversation
that is appended to. The rule (arXiv 2409.12191, section 2.1): text has one position in all three rows (time, height,
width); an image stands at one time, its rows and columns counted from there; what follows starts at the largest
position plus one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Grid = tuple[int, int]
"""Height and width of an image, in visual tokens."""


def text_positions(count: int, start: int = 0) -> NDArray[np.int64]:
    """Positions [3, count] of text that starts at `start`; what follows starts at `start + count`."""
    return np.broadcast_to(np.arange(start, start + count), (3, count))


def image_positions(grid: Grid, start: int = 0) -> NDArray[np.int64]:
    """Positions [3, h * w] of an image that starts at `start`; what follows starts at `start + max(h, w)`."""
    h, w = grid
    rows, columns = np.indices((h, w)).reshape(2, h * w)
    return start + np.stack([np.zeros_like(rows), rows, columns])


def positions(ids: Sequence[int], grids: Sequence[Grid], image_id: int) -> tuple[NDArray[np.int64], int]:
    """Positions [3, L] of tokens from 0 on, and the position that follows them.

    Each run of the placeholder `image_id` is cut by `grids`, in order. Raises ValueError where they do not match.
    """
    parts: list[NDArray[np.int64]] = []
    left, at, start = list(grids), 0, 0
    while at < len(ids):
        if ids[at] == image_id:
            if not left:
                raise ValueError(f"more image placeholders than the {len(grids)} grids account for")
            grid = left.pop(0)
            parts.append(image_positions(grid, start))
            size, extent = grid[0] * grid[1], max(grid)
            if any(i != image_id for i in ids[at : at + size]) or at + size > len(ids):
                raise ValueError(f"image of {size} visual tokens at token {at} has fewer placeholders")
        else:
            size = next((n for n, i in enumerate(ids[at:]) if i == image_id), len(ids) - at)
            parts.append(text_positions(size, start))
            extent = size
        at, start = at + size, start + extent
    if left:
        raise ValueError(f"{len(left)} of {len(grids)} images have no placeholders")
    return np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.int64), start
