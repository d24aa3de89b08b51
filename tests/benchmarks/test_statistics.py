"""Intervals and the paired test: against the scores themselves, and against what is known of chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.benchmarks import proactivevideoqa, streamingbench
from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo import timing
from turnwise.benchmarks.statistics import Part, _clusters, compare, headline, interval, parts_of


def questions(right, clips=None, subset="RTVU"):
    """One part a question, each of a video of its own unless `clips` says so."""
    clips = clips or range(len(right))
    return [
        Part(subset, f"{subset}/{i}", f"{c}.mp4", (float(r), 1.0))
        for i, (r, c) in enumerate(zip(right, clips, strict=True))
    ]


def both(right, clips=None):
    return questions(right, clips) + questions(right, clips, "PO")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 60), max_size=4), min_size=3, max_size=9))
def test_summed_parts_give_the_headline_of_the_scorer(times):
    items = [
        timing.Timed(timing.SUBSETS[n % 3], str(n), f"{n // 6}", "?", 0.0, 60.0, (10.0, 30.0))
        for n in range(len(times))
    ]
    said = {item.key: [Reply(t, "x") for t in sorted(given)] for item, given in zip(items, times, strict=True)}
    result = timing.score(items, said, tolerance=2.0)
    parts = parts_of(timing, result.samples)
    assert [(part.item, part.clip) for part in parts] == [(item.key, item.clip) for item in items]
    sums = _clusters(timing, [parts])
    found = headline(timing, {subset: timing.share(values.sum(0)) for subset, values in sums.items()})
    assert 100 * found == pytest.approx(result.metrics["score"])


def test_an_interval_holds_the_score_and_is_seeded():
    parts = both([True] * 60 + [False] * 40)
    first = interval(streamingbench, parts)
    low, high = first["RTVU"]
    assert low < 60 < high
    # the standard error of a share of 0.6 of 100 is 4.9 points
    assert high - low == pytest.approx(2 * 1.96 * 4.9, rel=0.1)
    assert first == interval(streamingbench, parts)
    assert first["score"][1] - first["score"][0] < high - low


def test_questions_of_one_video_are_drawn_together():
    right = [n < 50 for n in range(100)]
    alone, together = (
        interval(streamingbench, both(right, clips))["RTVU"] for clips in (None, [n // 10 for n in range(100)])
    )
    assert together[1] - together[0] > 2 * (alone[1] - alone[0])


def test_what_cannot_be_drawn_has_no_interval():
    assert interval(streamingbench, questions([True]))["score"] is None
    assert interval(streamingbench, questions([True]))["PO"] is None
    unscored = [Part("WEB", "WEB/1", "1.mp4", (0.0, 0.0))]
    assert interval(proactivevideoqa, unscored)["WEB"] is None


def test_the_same_predictions_do_not_differ():
    parts = both([True, False] * 20)
    found = compare(streamingbench, parts, parts)
    assert (found.difference, found.p, found.interval) == (0.0, 1.0, [0.0, 0.0])


def test_a_sure_difference_is_found_and_a_chance_one_is_not():
    rng = np.random.default_rng(3)
    base = rng.random(200) < 0.5
    better = compare(streamingbench, both(base), both(base | (rng.random(200) < 0.3)))
    assert better.difference > 5
    assert better.p < 0.001
    assert better.interval[0] > 0
    assert (better.items, better.videos) == (400, 400)
    swapped = base.copy()
    swapped[:10] = ~swapped[:10]
    assert compare(streamingbench, both(base), both(swapped)).p > 0.05


def test_the_permutation_p_value_is_right_where_all_swaps_can_be_counted():
    # one subset each of 3 videos that all got better: of 2^6 swaps, 2 are as extreme
    found = compare(streamingbench, both([False] * 3), both([True] * 3))
    assert found.p == pytest.approx(2 / 64, abs=0.012)
    assert found.difference == 100.0


def test_no_comparison_without_a_headline():
    assert compare(streamingbench, questions([True]), questions([False])) is None
