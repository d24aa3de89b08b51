"""M-RoPE positions of text, images and videos, for both families: computed here and always passed to the model.

transformers keeps a `rope_deltas` from an earlier call in the module and trusts it, which is wrong for a conversation
that is appended to; and 5.24 lets text after a Qwen2.5-VL video start too early. The rule (arXiv 2409.12191, section
2.1, and the first release of the model's code): text has one position in all three rows (time, height, width); an
image stands at one time, its rows and columns counted from there; the patches of a video follow each other in time;
what comes after starts at the largest position plus one.

A policy here shows frames as images. A Qwen3-VL video is images, too: its processor writes a time before each patch.
"""

from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Grid = tuple[int, int]
"""Height and width of an image, in visual tokens."""


class Video(NamedTuple):
    """A video that stands as one run of placeholders (Qwen2.5-VL)."""

    grid: Grid
    """Of each patch of time."""
    times: tuple[int, ...]
    """Time position of each patch, counted from the video's start, rising."""


def video_times(patches: int, seconds: float, tokens_per_second: float) -> tuple[int, ...]:
    """Time positions of a video's patches of `seconds` each; `tokens_per_second` is the vision configuration's."""
    return tuple(int(patch * seconds * tokens_per_second) for patch in range(patches))


def text_positions(count: int, start: int = 0) -> NDArray[np.int64]:
    """Positions [3, count] of text that starts at `start`; what follows starts at `start + count`."""
    return np.broadcast_to(np.arange(start, start + count), (3, count))


def visual_positions(shown: Grid | Video, start: int = 0) -> NDArray[np.int64]:
    """Positions [3, t * h * w] of an image (t = 1) or a video that starts at `start`."""
    (h, w), times = shown if isinstance(shown, Video) else (shown, (0,))
    patches, rows, columns = np.indices((len(times), h, w)).reshape(3, -1)
    return start + np.stack([np.array(times)[patches], rows, columns])


def positions(
    ids: Sequence[int], shown: Sequence[Grid | Video], placeholders: Container[int]
) -> tuple[NDArray[np.int64], int]:
    """Positions [3, L] of tokens from 0 on, and the position that follows them.

    Each run of `placeholders` is cut by the images and videos `shown`, in order. Raises ValueError where they do not match.
    """
    parts: list[NDArray[np.int64]] = []
    left, at, start = list(shown), 0, 0
    while at < len(ids):
        if ids[at] in placeholders:
            if not left:
                raise ValueError(f"more placeholders than the {len(shown)} images account for")
            part = visual_positions(left.pop(0), start)
            run = ids[at : at + part.shape[1]]
            if len(run) < part.shape[1] or any(i not in placeholders for i in run):
                raise ValueError(f"image of {part.shape[1]} visual tokens at token {at} has fewer placeholders")
        else:
            part = text_positions(next((n for n, i in enumerate(ids[at:]) if i in placeholders), len(ids) - at), start)
        parts.append(part)
        at, start = at + part.shape[1], int(part.max()) + 1
    if left:
        raise ValueError(f"{len(left)} of {len(shown)} images have no placeholders")
    return np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.int64), start
