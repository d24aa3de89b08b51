from itertools import pairwise

import pytest

from turnwise.training.sft import _warmup_cosine


def test_the_warm_up_learns_in_both_phases(world):
    losses = [line.split() for line in (world / "losses.txt").read_text().splitlines()]
    captions = [float(loss) for phase, loss in losses if phase == "captions"]
    streams = [float(loss) for phase, loss in losses if phase == "streams"]
    assert (len(captions), len(streams)) == (8, 12)
    assert captions[-1] < 0.9 * captions[0]
    assert streams[-1] < 0.9 * streams[0]


def test_the_rate_rises_over_a_tenth_and_falls_to_a_tenth():
    rates = [_warmup_cosine(step, 100) for step in range(101)]
    assert rates[9] == rates[10] == 1.0
    assert rates[100] == pytest.approx(0.1)
    assert all(a < b for a, b in pairwise(rates[:10]))
    assert all(a > b for a, b in pairwise(rates[10:]))
