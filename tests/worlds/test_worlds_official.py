"""The small benchmarks have the fields, the order and the oddities of the published files."""

import json
import re

import pytest

from turnwise.videos import check_clip
from turnwise.worlds.language import LETTERS
from turnwise.worlds.official import SUBSETS


@pytest.fixture(scope="module")
def read(world):
    return lambda path: json.loads((world / "benchmarks" / path).read_text())


@pytest.mark.parametrize("subset", SUBSETS)
def test_proactivevideoqa(world, read, subset):
    records = read(f"proactivevideoqa/{subset}/anno.json")
    assert len({record["question_id"] for record in records}) == len(records)
    for record in records:
        assert set(record) == {"video", "question_id", "conversation", "answer", "duration"}
        info = check_clip(world / "benchmarks" / "proactivevideoqa" / subset / "videos" / record["video"])
        assert record["duration"] == pytest.approx(info.duration)
        assert record["question_id"].startswith(record["video"])
        assert record["conversation"][0]["time"] == 0
        assert all(said["content"].startswith("Subtitle: ") for said in record["conversation"][1:])
        assert (len(record["conversation"]) > 1, "=" in record["video"]) == (subset == "TV", subset == "TV")
        for answer in record["answer"]:
            (start, end), reply = answer["related_timespan"], answer["reply_timespan"]
            assert reply == [start, min(end + 1, record["duration"])]
            assert ("type" in answer) == (subset == "EGO")


OVO_FIELDS = {
    "CRR": {"question", "answer", "ask_time", "clue_time", "test_info"},
    "REC": {"activity", "start_times", "end_times", "test_info"},
    "SSR": {"tutorial", "all_steps", "start_time", "end_time", "test_info"},
    "ATR": {"question", "answer", "options", "gt", "realtime"},
}


def test_ovobench(world, read):
    records = read("ovobench/ovo_bench_new.json")
    assert [record["id"] for record in records] == list(range(len(records)))
    assert {record["task"] for record in records} == set(OVO_FIELDS)
    for record in records:
        assert set(record) == {"id", "task", "video"} | OVO_FIELDS[record["task"]]
        duration = check_clip(world / "benchmarks" / "ovobench" / "videos" / record["video"]).duration
        assert all(probe["realtime"] <= duration for probe in record.get("test_info", []))


def test_ovobench_probes(read):
    for record in read("ovobench/ovo_bench_new.json"):
        probes = record.get("test_info")
        if record["task"] == "CRR":
            assert [probe["type"] for probe in probes] == [0, 0, 1, 1, 1]
            assert probes[1]["realtime"] < record["clue_time"] < probes[2]["realtime"]
        elif record["task"] == "REC":
            ends = record["end_times"]
            assert all(probe["count"] == sum(end <= probe["realtime"] for end in ends) for probe in probes)
        elif record["task"] == "SSR":
            assert [probe["step"] for probe in probes if probe["type"]] == [
                s for s in record["all_steps"] for _ in "123"
            ]
            assert all(probe["type"] for probe in probes if probe["step"] == record["all_steps"][0])
        else:
            assert record["options"][record["gt"]] == record["answer"]


def seconds(stamp: str) -> int:
    assert re.fullmatch(r"\d\d:\d\d:\d\d", stamp)
    return sum(int(part) * 60**power for power, part in enumerate(reversed(stamp.split(":"))))


@pytest.mark.parametrize("file", ["questions_real.json", "questions_proactive.json"])
def test_streamingbench(world, read, file):
    for entry in read(f"streamingbench/{file}"):
        assert set(entry) == {"time", "questions", "video_categories", "video_path"}
        assert re.fullmatch(r"\[\d:\d\d:\d\d - \d:\d\d:\d\d\]", entry["time"])
        assert (world / "benchmarks" / "streamingbench" / entry["video_path"]).is_file()


def test_streamingbench_questions(read):
    for entry in read("streamingbench/questions_real.json"):
        for asked in entry["questions"]:
            assert [option[:3] for option in asked["options"]] == [f"{letter}. " for letter in LETTERS]
            assert asked["answer"] in LETTERS
    for entry in read("streamingbench/questions_proactive.json"):
        for asked in entry["questions"]:
            assert f'output "{asked["ground_truth_output"]}"' in asked["question"]
            assert seconds(asked["time_stamp"]) < seconds(asked["ground_truth_time_stamp"])
