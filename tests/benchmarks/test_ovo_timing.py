"""Event times, maximum matching and Timing F1 by hand and against slow oracles."""

import copy
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest
from benchmark_samples import OVO, write_benchmarks, write_records
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo import timing as bench
from turnwise.config import Stream

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
    loaded = bench.load([write_benchmarks(tmp_path) / "ovobench"])
    assert loaded.report() == {"found": 3, "usable": 3, "refused": [], "odd": []}
    crr, rec, ssr = loaded.items
    assert (crr.key, crr.clip, crr.start, crr.end, crr.events) == ("CRR/7", "videos/movies/m.mp4", 10.0, 25.0, (15.0,))
    assert (rec.question, rec.events) == ("How many times does the event: clapping happen?", (8.0, 8.0, 14.0))
    assert (ssr.question, ssr.events, ssr.end) == ("Describe the steps of assemble desktop pc", (10.0, 5.0), 13.0)


def test_silence_is_0_and_replies_at_the_events_100(tmp_path: Path):
    items = bench.load([write_benchmarks(tmp_path) / "ovobench"]).items
    silent = bench.score(items, {item.key: [] for item in items}, tolerance=2.0).metrics
    exact = {item.key: [Reply(time, "x") for time in item.events] for item in items}
    assert (silent["score"], bench.score(items, exact, tolerance=0.0).metrics["score"]) == (0.0, 100.0)


def test_the_stream_starts_at_the_question_and_stops_at_the_last_probe_or_the_clip(tmp_path: Path):
    crr = bench.load([write_benchmarks(tmp_path) / "ovobench"]).items[0]
    assert bench.episode(crr, STREAM, 99.0).grid.times == tuple(12.0 + 2 * k for k in range(7))
    assert bench.episode(crr, STREAM, 15.0).grid.times == (12.0, 14.0)
    assert [query.time for query in bench.episode(crr, STREAM, 99.0).shown_queries()[0]] == [10.0]
    with pytest.raises(ValueError, match="starts at 10 s and ends at 9 s"):
        bench.episode(crr, STREAM, 9.0)


@pytest.mark.parametrize(
    ("number", "change", "reason"),
    [
        (1, {"clue_time": 9}, "clue_time: 9 s is before ask_time"),
        (2, {"start_times": []}, "start_times"),
        (2, {"end_times": [6]}, "end_times: 1 for 3"),
        (3, {"test_info": [{"realtime": 0, "step": "one", "type": 0}]}, "test_info: no realtime is after 0 s"),
        (3, {"start_time": ["soon", 1]}, "start_time.0"),
        (3, {"all_steps": ["one"]}, "all_steps: 1 for 2"),
        (0, {"task": "XYZ"}, "task: 'XYZ' is none of"),
    ],
)
def test_a_bad_record_is_refused_by_name_and_the_others_stay(tmp_path: Path, number, change, reason):
    records = copy.deepcopy(OVO)
    records[number].update(change)
    write_records(tmp_path / "ovo_bench_new.json", records)
    loaded = bench.load([tmp_path / "ovo_bench_new.json"])
    ((name, why),) = loaded.refused
    assert name == f"{records[number]['task']}/{records[number]['id']}"
    assert reason in why
    assert loaded.report()["usable"] == 3 - (number > 0)


def test_without_a_subtask_there_is_no_headline(tmp_path: Path):
    write_records(tmp_path / "ovo_bench_new.json", OVO[:2])
    items = bench.load([tmp_path]).items
    metrics = bench.score(items, {"CRR/7": [Reply(15, "x")]}, tolerance=2.0).metrics
    assert (metrics["score"], metrics["subsets"]["CRR"]["score"], metrics["subsets"]["REC"]["score"]) == (
        None,
        100,
        None,
    )


RULES = {
    "released": {"CRR/7": (15,), "REC/8": (8, 8, 14), "SSR/9": (10, 5)},
    "start": {"CRR/7": (15,), "REC/8": (6, 6, 12), "SSR/9": (8, 3)},
    "end": {"CRR/7": (15,), "REC/8": (6, 7, 14), "SSR/9": (12, 7)},
    "probe": {"CRR/7": (17,), "REC/8": (7, 7, 20), "SSR/9": (13, 5)},
}


@pytest.mark.parametrize("rule", RULES)
def test_event_rules(tmp_path: Path, rule):
    items = bench.load([write_benchmarks(tmp_path) / "ovobench"], events=rule).items
    assert {item.key: item.events for item in items} == RULES[rule]


def test_a_step_is_due_at_its_first_positive_probe_since_it_started(tmp_path: Path):
    records = copy.deepcopy(OVO)
    probes = [(13, "one", 1), (10, "one", 1), (4, "one", 1), (9, "one", 0), (5, "two", 1), (7, "two", 1)]
    records[3]["test_info"] = [{"realtime": time, "step": step, "type": kind} for time, step, kind in probes]
    write_records(tmp_path / "ovo_bench_new.json", records)
    assert bench.load([tmp_path], events="probe").items[-1].events == (10, 5)


def test_a_count_that_falls_back_is_no_second_rise():
    probes = [(1, 1), (2, 0), (3, 1), (4, 3), (5, 2)]
    assert bench._rises(probes) == (1, 4, 4)


def test_a_record_that_no_probe_expects_is_refused_by_the_probe_rule_only(tmp_path: Path):
    records = copy.deepcopy(OVO)
    records[1]["test_info"] = [{"realtime": 20, "type": 0}]
    write_records(tmp_path / "ovo_bench_new.json", records)
    assert not bench.load([tmp_path], events="released").refused
    assert bench.load([tmp_path], events="probe").refused == (("CRR/7", "test_info: no probe expects an event"),)


def test_first_come_first_served_takes_events_in_the_order_given():
    assert bench.matches([10, 13], [14.9, 11.6], 2.0, "first") == 2  # 10 takes 11.6, 13 takes 14.9
    assert bench.matches([13, 10], [11.6, 14.9], 2.0, "first") == 1  # 13 takes 11.6, which 10 needed
    assert bench.matches([13, 10], [11.6, 14.9], 2.0) == 2


@settings(deadline=None)
@given(halves, halves, st.sampled_from([0.0, 0.5, 2.0]))
def test_on_sorted_lists_the_released_matching_is_a_maximum(events, times, tolerance):
    events, times = sorted(events), sorted(times)
    assert bench.matches(events, times, tolerance, "first") == bench.matches(events, times, tolerance)


def test_micro_pools_and_item_f1_averages():
    items = [timed("CRR", "1", [10]), timed("CRR", "2", [10]), timed("REC", "3", [5]), timed("SSR", "4", [5])]
    said = {"CRR/1": [10, 20, 30], "CRR/2": [11], "REC/3": [], "SSR/4": []}
    crr = bench.score(items, {k: [Reply(t, "x") for t in v] for k, v in said.items()}, tolerance=2.0).metrics[
        "subsets"
    ]["CRR"]
    # item 1: P 1/3, R 1, F1 1/2; item 2: 1, 1, 1. Pooled: 2 matches, 4 replies, 2 events.
    assert crr["score"] == pytest.approx(float(100 * Fraction(4, 5)))  # mean P 2/3, mean R 1
    assert crr["micro"] == pytest.approx(float(100 * Fraction(2, 3)))
    assert crr["item_f1"] == pytest.approx(75.0)
