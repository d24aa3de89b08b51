"""Predictions survive any kill, and never mix."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from turnwise.benchmarks.items import Item, Reply
from turnwise.benchmarks.predictions import read_predictions
from turnwise.benchmarks.store import PredictionFile, line_of
from turnwise.errors import UserError

PROTOCOL = {"model": "m", "grid": {"frame_interval": 2.0}}

WRITER = """
import sys, time
from pathlib import Path
from turnwise.benchmarks.items import Item, Reply
from turnwise.benchmarks.store import PredictionFile, line_of
with PredictionFile(Path(sys.argv[1]), "ovo_timing", {"model": "m", "grid": {"frame_interval": 2.0}}) as file:
    for n in range(400):
        if f"CRR/{n}" not in file.done:
            file.append([line_of(Item("CRR", str(n), "x.mp4"), [Reply(float(n), "text " * 50)])])
            print(n, flush=True)
            time.sleep(0.002)
"""


def line(n):
    return line_of(Item("CRR", str(n), "x.mp4"), [Reply(float(n), "text " * 50)])


def start(path):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)


def test_a_run_killed_at_any_moment_goes_on_and_ends_the_same(tmp_path):
    path, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    for wait in (3, 40, 41):
        process = start(path)
        for _ in range(wait):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    already = path.read_text().count("\n") - 1
    assert already >= 80
    process = start(path)
    said = process.communicate()[0].split()
    assert (process.returncode, len(said)) == (0, 400 - already)
    with PredictionFile(whole, "ovo_timing", PROTOCOL) as file:
        file.append(line(n) for n in range(400))
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("cut", [1, 7, 100, 150, 300, 10_000])
def test_a_line_cut_short_is_done_again(tmp_path, cut):
    path = tmp_path / "p.jsonl"
    with PredictionFile(path, "ovo_timing", PROTOCOL) as file:
        file.append([line(0), line(1)])
    whole = path.read_bytes()
    path.write_bytes(whole[: -min(cut, len(whole))])
    with PredictionFile(path, "ovo_timing", PROTOCOL) as file:
        file.append(line(n) for n in (0, 1) if f"CRR/{n}" not in file.done)
    assert path.read_bytes() == whole


def test_another_protocol_or_model_is_refused_and_the_file_left_alone(tmp_path):
    path = tmp_path / "p.jsonl"
    with PredictionFile(path, "ovo_timing", PROTOCOL) as file:
        file.append([line(0)])
    before = path.read_bytes()
    for changed, name in (
        ({"model": "other"}, "model"),
        ({"grid": {"frame_interval": 1.0}}, "grid"),
        ({"new": 1}, "new"),
    ):
        with pytest.raises(UserError, match=rf"holds predictions of another run, which differs in {name}; .*--out"):
            PredictionFile(path, "ovo_timing", PROTOCOL | changed)
    assert path.read_bytes() == before


def test_what_is_no_predictions_file_is_refused_and_left_alone(tmp_path):
    for text in ("hello", "hello\n", '{"a": 1}', '{"benchmark": "p', '{"a": 1}\n', '{"a": 1}\nhello\n', "[1]\n"):
        path = tmp_path / "p.jsonl"
        path.write_text(text)
        with pytest.raises(UserError, match=r"p\.jsonl.* no prediction"):
            PredictionFile(path, "ovo_timing", PROTOCOL)
        assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file/p.jsonl"):
        with pytest.raises(UserError, match=r"cannot be written: .*; give another --out"):
            PredictionFile(path, "ovo_timing", PROTOCOL)


def test_two_processes_do_not_write_one_file(tmp_path):
    process = start(tmp_path / "p.jsonl")
    process.stdout.readline()
    try:
        with pytest.raises(UserError, match="another process is writing it"):
            PredictionFile(tmp_path / "p.jsonl", "ovo_timing", PROTOCOL)
    finally:
        process.kill()
        process.communicate()
    time.sleep(0.01)
    PredictionFile(tmp_path / "p.jsonl", "ovo_timing", PROTOCOL).__exit__()


def test_the_header_says_the_protocol_to_whoever_reads(tmp_path):
    path = tmp_path / "p.jsonl"
    with PredictionFile(path, "ovo_timing", PROTOCOL) as file:
        file.append([line_of(Item("CRR", "é=1", "x.mp4"), [])])

    class Plain(Item):
        ends = 9.0

    read = read_predictions([path], "ovo_timing", [Plain("CRR", "é=1", "x.mp4")])
    assert (read.faults, read.headers[0]["protocol"], read.replies) == ([], PROTOCOL, {"CRR/é=1": []})
    assert json.loads(path.read_text().splitlines()[0])["benchmark"] == "ovo_timing"
