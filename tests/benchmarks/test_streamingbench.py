"""RTVU by first letter, Proactive Output by time and text, and the loader."""

import copy
from pathlib import Path

import pytest
from benchmark_samples import PROACTIVE, REAL, write_benchmarks, write_records
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.benchmarks import streamingbench as bench
from turnwise.benchmarks.items import Reply
from turnwise.config import Stream
from turnwise.errors import UserError
from turnwise.worlds.language import four_way

STREAM = Stream(frame_interval=2.0, frames_per_turn=1)
OUTPUT = bench.Asked("PO", "o", "w.mp4", "?", 20.0, "3", 29.0)
CHOICE = bench.Asked("RTVU", "c", "u.mp4", "?", 24.0, "B", 24.0)


def metrics(choice=(), output=()):
    said = {CHOICE.key: [Reply(*r) for r in choice], OUTPUT.key: [Reply(*r) for r in output]}
    return bench.score([CHOICE, OUTPUT], said, tolerance=2.0).metrics


@pytest.mark.parametrize(
    ("said", "right", "unparsable"),
    [("B", 100, 0), ("B. two", 100, 0), ("A", 0, 0), (" B", 0, 1), ("Definitely B", 0, 0), ("two", 0, 1), ("", 0, 1)],
)
def test_first_letter(said, right, unparsable):
    part = metrics(choice=[(24.0, said)])["subsets"]["RTVU"]
    assert (part["score"], part["unparsable"], part["scored"]) == (right, unparsable, 1)


def test_only_a_reply_to_the_question_answers_it():
    assert metrics(choice=[(22.0, "B")])["subsets"]["RTVU"]["score"] == 0
    assert metrics(choice=[(22.0, "A"), (24.0, "B")])["subsets"]["RTVU"]["score"] == 100


@pytest.mark.parametrize(
    ("said", "time", "joint"),
    [
        ([(27.0, "It is 3.")], 100, 100),
        ([(31.0, "3")], 100, 100),
        ([(26.9, "3")], 0, 0),
        ([(29.0, "three")], 100, 0),
        ([(25.0, "wait"), (29.0, "3")], 0, 0),
        ([], 0, 0),
    ],
)
def test_the_first_output_in_time_with_the_text(said, time, joint):
    whole = metrics(output=said)
    assert (whole["subsets"]["PO"]["time"], whole["subsets"]["PO"]["score"]) == (time, joint)
    assert whole["score"] == joint / 2


def test_load_counts_the_questions_of_a_video_and_reads_every_clock(tmp_path: Path):
    loaded = bench.load(write_benchmarks(tmp_path) / "streamingbench")
    assert [(item.key, item.time) for item in loaded.items] == [
        ("RTVU/u_1", 24.0),
        ("RTVU/u_2", 90.0),
        ("RTVU/v_1", 1.0),
        ("RTVU/u_3", 90.0),
        ("PO/w_1", 20.0),
        ("PO/w_2", 40.0),
    ]
    assert loaded.report() == {"found": 6, "usable": 6, "refused": []}
    assert {item.clip for item in loaded.items} == {"videos/u.mp4", "videos/v.mp4", "videos/w.mp4"}
    assert (loaded.items[4].target, loaded.items[4].due) == ("3", 29.0)


def test_a_question_reads_as_the_world_teaches_it(tmp_path: Path):
    item = bench.load(write_benchmarks(tmp_path) / "streamingbench").items[0]
    assert item.question == four_way("How many?", ["A. 1.", "B. 2.", "C. 3.", "D. 4."])


@settings(deadline=None)
@given(st.integers(1, 200), st.sampled_from([0.1, 0.3, 1.0, 2.0, 7.0]), st.integers(1, 3))
def test_the_choice_comes_last_after_at_most_a_minute(time, interval, frames):
    item = bench.Asked("RTVU", "c", "u.mp4", "?", float(time), "B", float(time))
    episode = bench.episode(item, Stream(frame_interval=interval, frames_per_turn=frames), 999.0)
    *before, last = episode.shown_queries()
    assert [query.text for query in last] == ["?"]
    assert not any(before)
    assert episode.turns == 1
    assert all(given.text is None for given in episode.history)
    assert episode.grid.times[-1] == pytest.approx(time, abs=1e-9)
    shown = [given.frame_times for given in episode.history] + list(episode.grid.frame_times)
    assert shown[0][0] >= max(0, time - bench.CONTEXT) - 1e-9


@pytest.mark.parametrize(("duration", "last"), [(99.0, 32.0), (29.0, 28.0)])
def test_output_streams_from_the_question_to_just_past_the_target(duration, last):
    episode = bench.episode(OUTPUT, STREAM, duration)
    assert (episode.grid.start, episode.grid.times[-1]) == (20.0, last)
    assert [query.text for query in episode.shown_queries()[0]] == ["?"]


def test_a_question_before_anything_was_shown_is_refused_with_its_reason(tmp_path: Path):
    records = copy.deepcopy(REAL)
    records[1]["questions"][0]["time_stamp"] = "00:00:00"
    write_records(write_benchmarks(tmp_path) / "streamingbench/questions_real.json", records)
    report = bench.load(tmp_path / "streamingbench").report()
    assert (report["found"], report["usable"]) == (6, 5)
    assert report["refused"] == [
        {"record": "RTVU/v_1", "reason": "time_stamp is 0: nothing was shown before the question"}
    ]


@pytest.mark.parametrize(
    ("file", "base", "change", "field"),
    [
        ("real", REAL, {"time_stamp": "24"}, "time_stamp: '24' is no time"),
        ("real", REAL, {"answer": "E"}, "answer: 'E' is none of A, B, C, D"),
        ("real", REAL, {"options": "A or B"}, "options"),
        ("proactive", PROACTIVE, {"ground_truth_time_stamp": "00:00:19"}, "must not be before"),
        ("proactive", PROACTIVE, {"ground_truth_output": ""}, "ground_truth_output"),
    ],
)
def test_a_bad_question_is_named(tmp_path: Path, file, base, change, field):
    records = copy.deepcopy(base)
    records[0]["questions"][0].update(change)
    write_records(write_benchmarks(tmp_path) / f"streamingbench/questions_{file}.json", records)
    with pytest.raises(UserError, match=rf"questions_{file}.json: record [uw]_1: .*{field}"):
        bench.load(tmp_path / "streamingbench")
