"""Reads cut clips in a process of its own, so that a decoder that hangs or dies takes nothing along."""

from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np


def read_cuts(source: Path, cuts: Sequence[int], times: Sequence[float], scratch: Path, answers: Connection) -> None:
    """For each cut: send (cut, what became of it): `refused`, `right`, or what is wrong with it."""
    from turnwise.errors import UserError
    from turnwise.videos import check_clip, clip_duration, read_frames

    whole, content = read_frames(source, times), source.read_bytes()
    info = check_clip(source)
    for cut in cuts:
        scratch.write_bytes(content[:cut])
        outcome = "right"
        try:
            found = read_frames(scratch, times)
            checked, duration = check_clip(scratch), clip_duration(scratch)
            if not np.array_equal(found, whole) or checked != info or abs(duration - info.duration) > 1e-6:
                outcome = "reads wrongly without a word"
        except UserError as error:
            if scratch.name not in str(error):
                outcome = f"a message without the file: {error}"
            elif outcome == "right":
                outcome = "refused"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        answers.send((cut, outcome))
    answers.close()
