"""Event times, maximum matching and Timing F1 by hand and against slow oracles."""

import copy
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest
from benchmark_samples import OVO, write_benchmarks, write_records
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.benchmarks import ovo_timing as bench
from turnwise.benchmarks.items import Reply
from turnwise.config import Stream
from turnwise.errors import UserError

STREAM = Stream(frame_interval=2.0, frames_per_turn=1)
halves = st.lists(st.integers(0, 30).map(lambda n: n / 2), max_size=5)


def most_pairs(events, times, tolerance):
    """The slow way: the largest k for which k events and k replies pair up in some order."""
    for k in range(min(len(events), len(times)), 0, -1):
        for chosen in combinations(events, k):
            for order in permutations(times, k):
                if all(abs(a - b) <= tolerance for a, b in zip(chosen, order, strict=True)):
                    return k
    return 0


@settings(deadline=None)
@given(halves, halves, st.sampled_from([0.0, 0.5, 2.0]))
def test_matching_is_a_maximum(events, times, tolerance):
    assert bench.matches(events, times, tolerance) == most_pairs(events, times, tolerance)


def test_matching_where_the_nearest_would_lose_one():
    assert bench.matches([10, 13], [11.6, 14.9], 2.0) == 2
    assert bench.matches([10], [12], 2.0) == 1
    assert bench.matches([10], [12.01], 2.0) == 0
    assert bench.matches([8, 8], [8, 8, 8], 2.0) == 2


def timed(subset, name, events):
    return bench.Timed(subset, name, "x.mp4", "?", 0.0, 60.0, tuple(events))


def test_timing_f1_is_of_mean_precision_and_mean_recall():
    items = [timed("CRR", "1", [10]), timed("CRR", "2", [10]), timed("REC", "3", [10, 20, 30]), timed("SSR", "4", [10])]
    said = {"CRR/1": [10], "CRR/2": [], "REC/3": [11, 19, 40, 41], "SSR/4": [30]}
    metrics = bench.score(items, {k: [Reply(t, "x") for t in v] for k, v in said.items()}, tolerance=2.0).metrics
    crr, rec = Fraction(1, 2), 2 * Fraction(1, 2) * Fraction(2, 3) / (Fraction(1, 2) + Fraction(2, 3))
    assert metrics["subsets"]["CRR"]["score"] == pytest.approx(float(100 * crr))
    assert metrics["subsets"]["REC"]["score"] == pytest.approx(float(100 * rec))
    assert metrics["score"] == pytest.approx(float(100 * (crr + rec) / 3))
    assert (metrics["scored"], metrics["expected"], metrics["replies"]) == (4, 4, 6)


def test_load_reads_forward_records_with_released_events(tmp_path: Path):
    loaded = bench.load(write_benchmarks(tmp_path) / "ovobench")
    assert loaded.report() == {"found": 3, "usable": 3, "refused": []}
    crr, rec, ssr = loaded.items
    assert (crr.key, crr.clip, crr.start, crr.end, crr.events) == ("CRR/7", "videos/movies/m.mp4", 10.0, 25.0, (15.0,))
    assert (rec.question, rec.events) == ("How many times does the event: clapping happen?", (8.0, 8.0, 14.0))
    assert (ssr.question, ssr.events, ssr.end) == ("Describe the steps of assemble desktop pc", (5.0, 10.0), 13.0)


def test_silence_is_0_and_replies_at_the_events_100(tmp_path: Path):
    items = bench.load(write_benchmarks(tmp_path) / "ovobench").items
    silent = bench.score(items, {item.key: [] for item in items}, tolerance=2.0).metrics
    exact = {item.key: [Reply(time, "x") for time in item.events] for item in items}
    assert (silent["score"], bench.score(items, exact, tolerance=0.0).metrics["score"]) == (0.0, 100.0)


def test_the_stream_starts_at_the_question_and_stops_at_the_last_probe_or_the_clip(tmp_path: Path):
    crr = bench.load(write_benchmarks(tmp_path) / "ovobench").items[0]
    assert bench.episode(crr, STREAM, 99.0).grid.times == tuple(12.0 + 2 * k for k in range(7))
    assert bench.episode(crr, STREAM, 15.0).grid.times == (12.0, 14.0)
    assert [query.time for query in bench.episode(crr, STREAM, 99.0).shown_queries()[0]] == [10.0]
    with pytest.raises(ValueError, match="starts at 10 s and ends at 9 s"):
        bench.episode(crr, STREAM, 9.0)


@pytest.mark.parametrize(
    ("number", "change", "field"),
    [
        (1, {"clue_time": 9}, "clue_time"),
        (2, {"start_times": []}, "start_times"),
        (3, {"test_info": [{"realtime": 0}]}, "test_info"),
        (3, {"start_time": ["soon"]}, "start_time.0"),
        (0, {"task": "XYZ"}, "task"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, number, change, field):
    records = copy.deepcopy(OVO)
    records[number].update(change)
    write_records(tmp_path / "ovo_bench_new.json", records)
    with pytest.raises(UserError, match=f"ovo_bench_new.json: record {records[number]['id']}: {field}"):
        bench.load(tmp_path)


def test_a_missing_subtask_is_named(tmp_path: Path):
    write_records(tmp_path / "ovo_bench_new.json", OVO[:2])
    with pytest.raises(UserError, match="no record of REC, SSR"):
        bench.load(tmp_path)
