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
    loaded = bench.load([write_benchmarks(tmp_path) / "streamingbench"])
    assert [(item.key, item.time) for item in loaded.items] == [
        ("RTVU/u_1", 24.0),
        ("RTVU/u_2", 90.0),
        ("RTVU/v_1", 1.0),
        ("RTVU/u_3", 90.0),
        ("PO/w@0020-0029", 20.0),
        ("PO/w@0040-0040", 40.0),
    ]
    assert loaded.report() == {"found": 6, "usable": 6, "refused": [], "odd": []}
    assert {item.clip for item in loaded.items} == {"videos/u.mp4", "videos/v.mp4", "videos/w.mp4"}
    assert (loaded.items[4].target, loaded.items[4].due) == ("3", 29.0)


def test_a_question_reads_as_the_world_teaches_it(tmp_path: Path):
    item = bench.load([write_benchmarks(tmp_path) / "streamingbench"]).items[0]
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
    report = bench.load([tmp_path / "streamingbench"]).report()
    assert (report["found"], report["usable"]) == (6, 5)
    assert report["refused"] == [{"record": "v_1", "reason": "time_stamp is 0: nothing was shown before the question"}]


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
def test_a_bad_question_is_refused_by_name_and_the_others_stay(tmp_path: Path, file, base, change, field):
    records = copy.deepcopy(base)
    records[0]["questions"][0].update(change)
    write_records(write_benchmarks(tmp_path) / f"streamingbench/questions_{file}.json", records)
    loaded = bench.load([tmp_path / "streamingbench"])
    ((name, reason),) = loaded.refused
    assert (name in ("u_1", "w_1"), loaded.report()["usable"]) == (True, 5)
    assert field in reason


def test_an_entry_without_questions_is_refused(tmp_path: Path):
    write_records(tmp_path / "questions_real.json", [{"video_path": "x.mp4"}, *REAL])
    loaded = bench.load([tmp_path])
    assert loaded.refused == (("questions_real.json number 0", "questions: Field required"),)
    assert len(loaded.items) == 4


CSV = """question_id,task_type,question,time_stamp,answer,options,frames_required,temporal_clue_type
Real-Time Visual Understanding_sample_1_1,Object Perception,"What, now?",0:00:24,B,"['A. 1', 'B. 2', 'D. it''s']",single,Prior
Real-Time Visual Understanding_sample_1_2,Object Perception,What?,00:24,C,A or B,single,Prior
sample-3,Object Perception,What?,00:24,C,"['A', 'B', 'C']",single,Prior
"""
PO_CSV = """question_id,task_type,question,time_stamp,ground_truth_time_stamp,ground_truth_output
Proactive Output_sample_17_1,Proactive Output,"When it is 3, output ""3"".",00:00:20,0:00:29,3
"""


def test_the_hubs_csv_gives_the_same_ids_as_the_repositorys_json(tmp_path: Path):
    (tmp_path / "rtvu.csv").write_text(CSV, encoding="utf-8-sig")
    (tmp_path / "po.csv").write_text(PO_CSV)
    loaded = bench.load([tmp_path / "rtvu.csv", tmp_path / "po.csv"])
    rtvu, po = loaded.items
    assert (rtvu.key, rtvu.clip, rtvu.time, rtvu.target) == ("RTVU/sample_1_1", "sample_1/video.mp4", 24.0, "B")
    assert rtvu.options[2] == "D. its"
    assert [reason for _, reason in loaded.refused] == [
        "options: 'A or B' is no list of texts",
        "question_id: does not end with sample_<video>_<question>",
    ]
    for kind, records, csv in (("real", REAL, rtvu), ("proactive", PROACTIVE, po)):
        entry = copy.deepcopy(records[0]) | {"video_path": f"./videos/sample_{17 if csv is po else 1}_{kind}.mp4"}
        write_records(tmp_path / f"{kind}.json", [entry])
        assert bench.load([tmp_path / f"{kind}.json"]).items[0].key == csv.key


def test_a_broken_csv_is_named(tmp_path: Path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"x\.csv: question_id: there is no such column"):
        bench.load([tmp_path / "x.csv"])


def test_a_subset_has_the_ids_of_the_whole(tmp_path: Path):
    write_records(tmp_path / "all.json", PROACTIVE)
    write_records(tmp_path / "some.json", PROACTIVE[1:])
    whole, some = (bench.load([tmp_path / f"{name}.json"]).items for name in ("all", "some"))
    assert [item.key for item in some] == [whole[1].key]


def test_a_target_that_the_question_does_not_quote_is_odd():
    question = 'When the scoreboard shows 40 - 40 later, output "40 - 40".'
    odd, plain = (bench.Asked("PO", "o", "w.mp4", question, 0, target, 9) for target in ("6-2", "40"))
    assert "asks to output '40 - 40', which does not hold '6-2'" in odd.oddity
    assert (plain.oddity, odd.parroted, OUTPUT.parroted) == (None, "40 - 40", ".")


def test_robust_parsing_reads_what_the_first_letter_misses():
    for said, official, robust in (
        (" B", 0, 100),
        ("Definitely B", 0, 100),
        ("B", 100, 100),
        ("A. no, B", 0, 0),
        ("two", 0, 100),
    ):
        item = bench.Asked(
            "RTVU", "c", "u.mp4", "?", 24.0, "B", 24.0, ("A. one", "B. Two.", "C. three", "D. 4"), "Counting"
        )
        part = bench.score([item], {item.key: [Reply(24, said)]}, tolerance=2.0).metrics["subsets"]["RTVU"]
        assert (part["score"], part["robust"], part["tasks"]) == (official, robust, {"Counting": official}), said


def test_polling_asks_each_second_to_four_past_the_target():
    assert bench.poll_times(OUTPUT, 99.0) == [21.0 + n for n in range(13)]
    assert bench.poll_times(OUTPUT, 22.5) == [21.0, 22.0]
    episode = bench.poll_episode(OUTPUT, 23.0, STREAM, asking=True)
    assert (episode.turns, episode.grid.times[-1], [h.time for h in episode.history]) == (1, 23.0, [])
    assert episode.queries[0].text == '? Is it the right time to output "3"? You can only answer yes or no.'
    later = bench.poll_episode(OUTPUT, 25.0, STREAM, asking=False)
    assert [*(h.time for h in later.history), later.grid.times[-1]] == [23.0, 25.0]
    assert later.queries[0].text == "?"
