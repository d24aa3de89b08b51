"""`turnwise eval` as a person uses it: tables, JSON, faults, and a real model that is killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmark_samples import ANNO, OVO, write_benchmarks
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.cli.profiles import params_yaml
from turnwise.config import Policy, compose
from turnwise.videos import write_clip

ROOT = Path(__file__).parents[2]
SMALL = {"hidden": 64, "layers": 2, "heads": 4, "vision_hidden": 32, "vision_layers": 2, "frame_pixels": 3136}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with annotations, no video, and params.yaml."""
    write_benchmarks(tmp_path / "b")
    values = compose(["embedded"], ROOT / "profiles")
    values["policy"] |= SMALL
    (tmp_path / "params.yaml").write_text(params_yaml(values))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, status=0):
    result = CliRunner().invoke(app, ["eval", *map(str, words)])
    assert result.exit_code == status, result.output
    return result


def fault(*words):
    """The message of a UserError."""
    result = CliRunner().invoke(app, ["eval", *map(str, words)])
    assert result.exit_code == 1
    return str(result.exception)


def of(benchmark):
    files = {"proactivevideoqa": "proactivevideoqa", "streamingbench": "streamingbench"}
    return ("--benchmark", benchmark, "--annotations", f"b/{files.get(benchmark, 'ovobench')}")


def lines(path, *values):
    Path(path).write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def timing(*said):
    keys = (("CRR", "7"), ("REC", "8"), ("SSR", "9"))
    return [
        {"subset": subset, "item": item, "replies": [{"time": t, "text": "x"} for t in times]}
        for (subset, item), times in zip(keys, said, strict=False)
    ]


def test_score_prints_a_table_and_writes_everything(folder):
    lines("p.jsonl", *timing([15], [8, 8, 14], [5, 10]))
    result = run("score", *of("ovo_timing"), "--predictions", "p.jsonl", "--json", "r.json")
    assert "100.00" in result.stdout
    assert "3 of 3 items scored" in result.stdout
    assert "every 8 s" in result.stdout
    written = json.loads((folder / "r.json").read_text())
    assert (written["score"], written["partial"], written["interval"]) == (100.0, False, [100.0, 100.0])
    assert written["protocol"] == {
        "scoring": {
            "events": "released: clue_time; start + 2 s",
            "matching": "maximum one-to-one",
            "tolerance": 2.0,
            "aggregation": "F1 of mean precision and mean recall of a subtask, plain mean over subtasks",
        },
        "inference": None,
    }
    assert (written["annotations"]["found"], written["shared_videos"]) == (3, None)


def test_settings_change_the_score_and_stand_in_the_result(folder):
    lines("p.jsonl", *timing([15], [6, 6, 12], [3, 8]))
    for rule, score in (("released", 100.0), ("start", 100.0)):
        words = ("--tolerance", "2", "--events", rule, "--matching", "first", "--json", "r.json")
        run("score", *of("ovo_timing"), "--predictions", "p.jsonl", *words)
        assert json.loads((folder / "r.json").read_text())["score"] == score
    run("score", *of("ovo_timing"), "--predictions", "p.jsonl", "--tolerance", "1.9", "--json", "r.json")
    written = json.loads((folder / "r.json").read_text())
    assert written["score"] == pytest.approx(100 / 3)
    assert written["protocol"]["scoring"]["tolerance"] == 1.9


def test_a_part_and_a_limit_are_marked(folder):
    lines("p.jsonl", *timing([15], [8]))
    result = run("score", *of("ovo_timing"), "--predictions", "p.jsonl", "--json", "r.json")
    assert "2 of 3 items scored: PARTIAL" in result.stdout
    assert "no headline" in result.stdout
    assert json.loads((folder / "r.json").read_text())["partial"]
    said = [
        {"question_id": record["question_id"], "model_response_list": []} for part in ANNO.values() for record in part
    ]
    lines("s.jsonl", *said)
    words = ("--predictions", "s.jsonl", "--limit", "1")
    assert "5 of 5 turns scored\n" in run("score", *of("proactivevideoqa"), *words).stdout


def test_a_submission_is_scored_with_the_judge_of_params(folder):
    replies = [{"time": 1, "content": "A cup."}, {"time": 4, "content": "A hat."}]
    lines("s.jsonl", {"question_id": "a.1.mp4", "model_response_list": replies})
    result = run("score", *of("proactivevideoqa"), "--predictions", "s.jsonl", "--json", "r.json")
    assert "rule-3 is asked for" in result.stderr
    written = json.loads((folder / "r.json").read_text())
    assert written["subsets"]["WEB"]["score"] > 50
    assert (written["protocol"]["scoring"]["judge"], written["omegas"]["0.5"]) == ("rule-3", None)
    words = ("--predictions", "s.jsonl", "--judge")
    for name in ("judge.x", "judge.train"):
        assert "none of judge.eval" in fault("score", *of("proactivevideoqa"), *words, name)


def test_released_ovo_results_are_scored(folder):
    (folder / "res").mkdir()
    forward = [record | {"test_info": [p | {"response": ["Yes"]} for p in record["test_info"]]} for record in OVO[1:]]
    choice = {"id": 0, "task": "EPM", "response": "A", "ground_truth": "A"}
    (folder / "res/m.json").write_text(json.dumps({"backward": [choice], "realtime": [], "forward": forward}))
    run("score", *of("ovo_bench"), "--predictions", "res", "--json", "r.json")
    written = json.loads((folder / "r.json").read_text())
    assert (written["scored"], written["subsets"]["EPM"]["score"]) == (8, 100.0)
    assert written["subsets"]["CRR"]["score"] == pytest.approx(200 / 3)


def full_annotation():
    """1,640 records with as many probes as the official file has, and a result for each in the released form."""
    mcq, crr, rec, ssr = OVO
    tasks = ("EPM", "ASI", "HLD", "OCR", "ACR", "ATR", "STU", "FPD", "OJR")
    records = [{**mcq, "task": tasks[n % 9], "video": f"{n % 600}.mp4"} for n in range(1468)]
    records += [{**crr, "test_info": crr["test_info"][:1] * 5} for _ in range(48)]
    records += [{**rec, "test_info": rec["test_info"][1:] * 9} for _ in range(82)]
    records += [{**ssr, "test_info": ssr["test_info"][:1] * 15} for _ in range(42)]
    records = [{**record, "id": number} for number, record in enumerate(records)]
    choices = [{"id": r["id"], "task": r["task"], "response": "The answer is A."} for r in records[:1468]]
    probes = [{**r, "test_info": [p | {"response": "Yes"} for p in r["test_info"]]} for r in records[1468:]]
    return records, {"backward": choices, "realtime": [], "forward": probes}


def test_a_full_annotation_is_scored_in_less_than_three_seconds(folder):
    records, results = full_annotation()
    (folder / "full.json").write_text(json.dumps(records))
    (folder / "results.json").write_text(json.dumps(results))
    words = (
        "--benchmark",
        "ovo_bench",
        "--annotations",
        "full.json",
        "--predictions",
        "results.json",
        "--json",
        "r.json",
    )
    start = time.process_time()
    run("score", *words)
    assert time.process_time() - start < 3
    written = json.loads((folder / "r.json").read_text())
    assert (written["annotations"]["usable"], written["scored"], written["partial"]) == (1640, 3076, False)


def test_validate_says_every_fault_and_fails():
    lines("p.jsonl", {"subset": "CRR", "item": "9", "replies": []}, *timing([-1]))
    result = run("validate", "p.jsonl", *of("ovo_timing"), status=1)
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "fault",
        "fault",
        "note",
        "1 of 3 items; 2 faults, 0 notes",
    ]
    lines("p.jsonl", *timing([15]))
    assert "note: 2 of 3 items have no prediction: REC/8, SSR/9" in run("validate", "p.jsonl", *of("ovo_timing")).stdout


@pytest.mark.parametrize("benchmark", ["proactivevideoqa", "ovo_timing", "ovo_bench", "streamingbench"])
def test_blind_needs_annotations_only(folder, benchmark):
    assert "silent" in run("blind", *of(benchmark), "--json", "r.json").stdout
    written = json.loads((folder / "r.json").read_text())
    assert written["blind"]["silent"]["score"] in (0.0, 25.0, None)
    assert written["annotations"]["refused"] == []


def test_compare(folder):
    for name, times in (("a", ([], [8], [])), ("b", ([15], [8, 8, 14], [5, 10]))):
        lines("p.jsonl", *timing(*times))
        run("score", *of("ovo_timing"), "--predictions", "p.jsonl", "--json", f"{name}.json")
    out = run("compare", "a.json", "b.json", "--json", "c.json").stdout
    assert "3 items of 3 videos that both scored; 0 that only one did" in out
    assert json.loads((folder / "c.json").read_text())["second"] == 100.0


def test_shared_videos_are_told(folder):
    lines("train.jsonl", {"clip": "clips/r.mp4"})
    lines("p.jsonl", *timing([15], [8], [5]))
    words = ("--predictions", "p.jsonl", "--training", "train.jsonl", "--json", "r.json")
    assert "1 videos are also in the training data: videos/r.mp4" in run("score", *of("ovo_timing"), *words).stderr
    assert json.loads((folder / "r.json").read_text())["shared_videos"][0]["because"] == "same name"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score", *of("ovo_timing"), "--predictions", "no.jsonl"), r"no.jsonl: no such file"),
        (("score", *of("ovo_timing"), "--predictions", "params.yaml"), "turnwise eval validate"),
        (
            ("score", *of("ovo_timing"), "--predictions", "params.yaml", "--omega", "1"),
            "--omega: ovo_timing has no such",
        ),
        (
            ("score", *of("streamingbench"), "--predictions", "params.yaml", "--events", "end"),
            "--events: streamingbench has",
        ),
        (("blind", "--benchmark", "ovo_bench", "--annotations", "x"), "x: no such file"),
        (("compare", "params.yaml", "params.yaml"), "params.yaml: not valid JSON"),
    ],
)
def test_mistakes_are_named(words, message):
    assert message in fault(*words)


INFER = ("infer", *of("ovo_timing"), "--model", "model", "--out")


def kill_when(path, count):
    """Start an inference in a process of its own and kill it as soon as its file has so many lines."""
    process = subprocess.Popen([sys.executable, "-m", "turnwise.cli", "eval", *INFER, path], stdout=subprocess.DEVNULL)
    while not (Path(path).exists() and Path(path).read_text().count("\n") >= count):
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_killed_inference_goes_on_and_ends_as_one_that_was_not(folder):
    from turnwise.policy import build_embedded

    values = compose(["embedded"], ROOT / "profiles")
    texts = ["A red ball.", "NO REPLY", "How many times does the event happen?", "Describe the steps"]
    build_embedded(Policy(**{**values["policy"], **SMALL}), texts, folder / "model", 0)
    for clip, seconds in (("movies/m.mp4", 30), ("r.mp4", 20), ("s.mp4", 20)):
        write_clip(folder / "b/ovobench/videos" / clip, np.zeros((seconds, 56, 56, 3), np.uint8), fps=1)
    text = (folder / "params.yaml").read_text().replace("batch: 64", "batch: 1")
    (folder / "params.yaml").write_text(text)

    run(*INFER, "whole.jsonl")
    kill_when("p.jsonl", 2)
    assert "0 of 3 items are there" not in run(*INFER, "p.jsonl").stderr
    assert Path("p.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    run("score", *of("ovo_timing"), "--predictions", "p.jsonl", "--json", "r.json")
    inference = json.loads(Path("r.json").read_text())["protocol"]["inference"]
    assert (inference["grid"]["frame_interval"], inference["sampling"], len(inference["model_files"])) == (
        2.0,
        "greedy",
        16,
    )

    assert "loading" not in run(*INFER, "p.jsonl").stderr  # nothing is left to do
    (folder / "params.yaml").write_text(text.replace("max_action_tokens: ", "max_action_tokens: 1"))
    assert "holds predictions of another run, which differs in caps" in fault(*INFER, "p.jsonl")
    (folder / "params.yaml").write_text(text)
    (folder / "model/generation_config.json").write_text("{}")
    assert "which differs in model_files" in fault(*INFER, "p.jsonl")
    assert Path("p.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mode", "poll"), "--mode: poll is how streamingbench asks"),
        (("--context", "9"), "--context: ovo_timing streams from the question on"),
        ((), "videos/movies/m.mp4: no such video"),
        (("--videos", "elsewhere"), "elsewhere/videos/movies/m.mp4: no such video"),
    ],
)
def test_mistakes_of_an_inference_are_named_before_a_model_is_loaded(folder, words, message):
    assert message in fault(*INFER, "p.jsonl", *words)
    assert not (folder / "p.jsonl").exists()
