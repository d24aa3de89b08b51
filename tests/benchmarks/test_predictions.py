"""Predictions of others: every fault is said, what is merely odd is noted, and nothing else is changed."""

import json
from pathlib import Path

import pytest
from benchmark_samples import write_benchmarks

from turnwise.benchmarks import proactivevideoqa
from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo import accuracy, timing
from turnwise.benchmarks.predictions import read_predictions
from turnwise.errors import UserError


@pytest.fixture
def timed(tmp_path):
    return timing.load([write_benchmarks(tmp_path / "b") / "ovobench"]).items


@pytest.fixture
def asked(tmp_path):
    return proactivevideoqa.load([write_benchmarks(tmp_path / "b") / "proactivevideoqa"]).items


@pytest.fixture
def probes(tmp_path):
    return accuracy.load([write_benchmarks(tmp_path / "b") / "ovobench"]).items


def written(folder: Path, *lines, name="p.jsonl") -> list[Path]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("\n".join(texts) + "\n")
    return [folder / name]


def own(item="7", replies=(), subset="CRR"):
    return {"subset": subset, "item": item, "replies": list(replies)}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{not json", ":2: not valid JSON"),
        ("[1]", ":2: is no JSON object"),
        (own("77"), ":2: item: 'CRR/77' is not in the annotation"),
        (own("7"), ":2: CRR/7 stands twice"),
        ({"item": "8"}, ":2: subset, item: must be texts"),
        (own("8", subset="REC") | {"replies": None}, ":2: REC/8: replies: must be a list, not NoneType"),
        (own("8", ["x"], "REC"), ":2: REC/8: replies.0: must be an object with time and text"),
        (own("8", [{"time": "3", "text": "x"}], "REC"), "replies.0: time: must be a number of seconds from 0, got '3'"),
        (own("8", [{"time": True, "text": "x"}], "REC"), "replies.0: time: must be a number"),
        (own("8", [{"time": -1, "text": "x"}], "REC"), "replies.0: time: must be a number of seconds from 0, got -1"),
        (own("8", [{"time": float("nan"), "text": "x"}], "REC"), "replies.0: time: must be a number"),
        (own("8", [{"time": 1, "text": None}], "REC"), "replies.0: text: must be a text, got None"),
        (
            {"benchmark": "ovo_bench", "protocol": {}},
            "benchmark: these are predictions of ovo_bench, not of ovo_timing",
        ),
    ],
)
def test_a_fault_is_said_with_its_place(tmp_path, timed, line, fault):
    read = read_predictions(written(tmp_path, own(), line), "ovo_timing", timed)
    assert len(read.faults) == 1
    assert fault in read.faults[0]
    assert "CRR/7" in read.replies


def test_every_fault_is_said(tmp_path, timed):
    bad = own("8", [{"time": -1, "text": "x"}, {"time": 1}, {"time": 2, "text": "fine"}], "REC")
    read = read_predictions(written(tmp_path, "x", bad, own("9", subset="CRR")), "ovo_timing", timed)
    assert [fault.split(": ", 1)[0].rpartition(":")[2] for fault in read.faults] == ["1", "2", "2", "3"]
    assert read.missing() == ["CRR/7", "SSR/9"]


def test_what_is_odd_is_noted_and_put_right(tmp_path, timed):
    late = own("7", [{"time": 26, "text": "b"}, {"time": 12, "text": "a"}])
    read = read_predictions(written(tmp_path, late), "ovo_timing", timed)
    assert (read.faults, read.replies["CRR/7"]) == ([], [Reply(12.0, "a"), Reply(26.0, "b")])
    assert ["not in time order" in read.notes[0], "1 replies come after the stream's end, 25 s" in read.notes[1]] == [
        True
    ] * 2


def test_lines_of_the_stage_evaluate_are_read_one_benchmark_at_a_time(tmp_path, timed):
    lines = [
        own() | {"benchmark": "ovo_timing", "protocol": "ab"},
        own("x", subset="WEB") | {"benchmark": "proactivevideoqa"},
    ]
    read = read_predictions(written(tmp_path, *lines), "ovo_timing", timed)
    assert (read.faults, list(read.replies)) == ([], ["CRR/7"])


def test_runs_are_not_mixed(tmp_path, timed):
    for name in "ab":
        written(tmp_path, {"benchmark": "ovo_timing", "protocol": {}, "fingerprint": name}, name=f"{name}.jsonl")
    read = read_predictions([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], "ovo_timing", timed)
    assert read.faults == ["fingerprint: the files hold predictions of different runs; score them apart"]


def test_missing_and_empty_files_are_named(tmp_path, timed):
    with pytest.raises(UserError, match=r"no\.jsonl: no such file"):
        read_predictions([tmp_path / "no.jsonl"], "ovo_timing", timed)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: holds no \.json or \.jsonl file"):
        read_predictions([tmp_path / "empty"], "ovo_timing", timed)
    assert "holds no prediction" in read_predictions(written(tmp_path, ""), "ovo_timing", timed).faults[0]


def test_a_submission_is_read_as_it_is(tmp_path, asked):
    turns = [
        {"role": "user", "time": 0, "content": "Where is she?"},
        {"role": "assistant", "time": 2, "content": "NO REPLY"},
        {"time": 3.5, "content": "By a door."},
    ]
    lines = [{"question_id": "frames=x.mp4%Q1", "model_response_list": turns, "drop_ratio_list": []}]
    lines += [{"question_id": "c.mp4", "model_response_list": []}]
    read = read_predictions(written(tmp_path, *lines), "proactivevideoqa", asked)
    assert read.faults == []
    assert read.replies == {"TV/frames=x.mp4%Q1": [Reply(3.5, "By a door.")], "VAD/c.mp4": []}
    assert read.missing() == ["WEB/a.1.mp4", "EGO/b.mp4"]


def test_faults_of_a_submission(tmp_path, asked):
    lines = [
        {"question_id": "z"},
        {"question_id": "c.mp4"},
        {"question_id": "b.mp4", "model_response_list": [{"time": 1}]},
    ]
    read = read_predictions(written(tmp_path, *lines), "proactivevideoqa", asked)
    assert [fault.split(": ", 1)[1] for fault in read.faults] == [
        "question_id: 'z' is not in the annotation",
        "c.mp4: model_response_list: must be a list, not NoneType",
        "b.mp4: model_response_list.0: content: must be a text, got None",
    ]


def choice(response, **other):
    return {
        "id": 0,
        "task": "EPM",
        "video": "m.mp4",
        "question": "?",
        "response": response,
        "ground_truth": "A",
    } | other


def rec(*responses, counts=(2, 3)):
    probes = [{"realtime": 7, "count": c, "response": r} for c, r in zip(counts, responses, strict=False)]
    return {"id": 8, "task": "REC", "test_info": probes}


def ovo(folder, probes, *, backward=(), forward=(), name="r.json", indent=None):
    content = {"backward": list(backward), "realtime": [], "forward": list(forward)}
    (folder / name).write_text(json.dumps(content, indent=indent))
    return read_predictions([folder], "ovo_bench", probes)


def test_ovo_results_in_several_files_with_lists_duplicates_and_nothing_said(tmp_path, probes):
    folder = tmp_path / "QWen2VL_7B"
    folder.mkdir()
    ovo(folder, probes, backward=[choice(["A. a"]), choice("B")], name="a.json")
    read = ovo(folder, probes, forward=[rec("2", None)], name="b.json", indent=2)
    assert read.faults == []
    assert read.replies == {"EPM/0": [Reply(9.0, "A. a")], "REC/8_0": [Reply(7.0, "2")], "REC/8_1": []}
    assert [
        "is a list; its first text counts" in read.notes[0],
        "EPM/0 stands twice; the first counts" in read.notes[1],
    ] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            {"backward": [choice("A", ground_truth="B")]},
            "EPM/0: ground_truth, count or type is not the annotation's (A)",
        ),
        ({"backward": [choice(3)]}, "EPM/0: response: must be a text or null, got 3"),
        ({"backward": [choice([])]}, "EPM/0: response: must be a text or null, got []"),
        ({"backward": [choice("A", id=99)]}, "item: 'EPM/99' is not in the annotation"),
        ({"backward": ["A"]}, "backward.0: must be a record with id and task"),
        ({"forward": [rec("2")]}, "test_info: 1 probes, where the annotation of REC/8 has 2"),
        (
            {"forward": [rec("2", "3", counts=(2, 4))]},
            "REC/8_1: ground_truth, count or type is not the annotation's (3)",
        ),
        ({"forward": [{"id": 8, "task": "REC"}]}, "test_info: no probes, where the annotation of REC/8 has 2"),
    ],
)
def test_faults_of_ovo_results(tmp_path, probes, content, fault):
    folder = tmp_path / "r"
    folder.mkdir()
    read = ovo(folder, probes, **content)
    assert len(read.faults) == 1
    assert fault in read.faults[0]
