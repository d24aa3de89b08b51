"""What a stage's output and exit status become."""

import sys
from pathlib import Path

import pytest

from flows.stages import BadInput, StageFailed, environment, failure, progress_event, progress_line


def test_a_progress_line_is_read_and_others_are_not() -> None:
    event = {"event": "progress", "label": "rl grpo 0", "done": 12, "total": 40, "seconds": 31.5, "reward": 1.23456}
    assert progress_event('{"event": "progress", "label": "rl grpo 0", "done": 12, "total": 40}') == {
        key: event[key] for key in ("event", "label", "done", "total")
    }
    assert progress_line(event) == "rl grpo 0: 12/40, 31.5 s, reward 1.235"
    for other in ("Running stage 'data':", "{}", "[1]", "3", '{"event": "other"}', ""):
        assert progress_event(other) is None


def test_a_refusal_is_told_from_a_failure() -> None:
    lines = ["> python -m tasks.sft 0", "error: params.yaml: seeds: wrong", "ERROR: ... tasks.sft 0, exited with 2"]
    refused = failure("sft@0", 255, lines)
    assert isinstance(refused, BadInput)
    assert str(refused) == "sft@0: exit status 255: error: params.yaml: seeds: wrong"
    failed = failure("sft@0", 255, ["MemoryError", "ERROR: ... tasks.sft 0, exited with 25"])
    assert type(failed) is StageFailed
    assert "MemoryError" in str(failed)


def test_stages_run_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/elsewhere")
    assert environment()["PATH"].split(":") == [str(Path(sys.executable).parent), "/elsewhere"]
