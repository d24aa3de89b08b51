"""mp4 files cut at 200 places: refused, or read as the whole file is; nothing hangs and no process dies."""

from pathlib import Path

import numpy as np
import pytest
from account import INPUTS
from clips_child import read_cuts
from kill_at import CONTEXT, serve

SECONDS = 60.0
"""Longest wait for the next cut's outcome."""


def outcomes(source: Path, cuts: list[int], scratch: Path) -> dict[int, str]:
    """What became of each cut, read in one child process."""
    serve()
    mine, theirs = CONTEXT.Pipe(duplex=False)
    times = [0.0, 1.0, 3.5, 6.0]
    child = CONTEXT.Process(target=read_cuts, args=(source, cuts, times, scratch, theirs))
    child.start()
    theirs.close()
    found = {}
    try:
        while len(found) < len(cuts):
            assert mine.poll(SECONDS), f"cut {cuts[len(found)]}: hangs"
            cut, outcome = mine.recv()
            found[cut] = outcome
    except EOFError:
        child.join()
        raise AssertionError(f"cut {cuts[len(found)]}: the process died with {child.exitcode}") from None
    finally:
        child.kill()
        child.join()
    return found


@pytest.mark.parametrize("count", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_cut_clips(finished, tmp_path, count):
    source = finished / "data/benchmarks/ovobench/videos/sample_0.mp4"
    size = source.stat().st_size
    cuts = np.unique(np.linspace(0, size - 1, count).astype(int)).tolist()
    found = outcomes(source, cuts, tmp_path / "cut.mp4")
    counts = INPUTS["mp4 clip, cut"]
    counts["read"] += len(found)
    counts["refused"] += sum(outcome == "refused" for outcome in found.values())
    assert {cut: outcome for cut, outcome in found.items() if outcome not in ("refused", "right")} == {}
    assert outcomes(source, [size], tmp_path / "cut.mp4") == {size: "right"}
