import json
import os
import pty
import subprocess
import sys

import pytest

from turnwise.progress import STAGE, Bar, emit

WORK = """
import sys, time
from turnwise.progress import STAGE, Bar
STAGE.set({stage})
with Bar("outer", 2) as outer:
    for _ in range(2):
        with Bar("inner", 30, patience={patience}) as inner:
            for n in range(30):
                time.sleep(0.01)
                inner.advance(reward=float(n))
        outer.advance()
"""


@pytest.fixture
def stage():
    token = STAGE.set(True)
    yield
    STAGE.reset(token)


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("stage")
def test_a_stage_off_a_terminal_prints_json_lines_and_always_the_last_one(capsys):
    with Bar("rollout", 3, every=100) as bar:
        for n in range(3):
            bar.advance(reward=float(n))
    told = lines(capsys)
    assert [(line["event"], line["label"], line["done"], line["total"], line["reward"]) for line in told] == [
        ("progress", "rollout", 1, 3, 0.0),
        ("progress", "rollout", 3, 3, 2.0),
    ]


@pytest.mark.usefixtures("stage")
def test_work_done_within_its_patience_is_not_told(capsys):
    with Bar("verdicts", 1, patience=100) as bar:
        bar.advance()
    assert lines(capsys) == []


def test_outside_a_stage_events_are_sentences_on_standard_error_and_progress_is_not_told(capsys):
    with Bar("verdicts", 1) as bar:
        bar.advance()
    emit("warning", message="the judge abstained")
    emit("resume", update=3, of=40)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "warning: the judge abstained\nresume: update 3, of 40\n")


def on_a_terminal(code, **streams):
    """What a process writes to a terminal that is its standard error, and its standard output unless `stdout` is given."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, **{"stdout": theirs, **streams})
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert child.wait() == 0
    return said.decode()


@pytest.mark.parametrize("is_stage", [True, False])
def test_a_terminal_shows_a_bar_with_its_rate_and_another_within(is_stage):
    said = on_a_terminal(WORK.format(stage=is_stage, patience=0.05))
    for part in ("outer", "inner", "2/2", "30/30", "/s", "reward 29"):
        assert part in said
    assert '{"event"' not in said


def test_a_bar_of_patience_never_shows_for_short_work():
    said = on_a_terminal(WORK.format(stage=False, patience=100))
    assert "outer" in said
    assert "inner" not in said


def test_a_command_whose_output_is_redirected_still_shows_its_bar_and_a_stage_prints_lines(tmp_path):
    for is_stage, shown in ((False, True), (True, False)):
        with (tmp_path / "out").open("w") as out:
            said = on_a_terminal(WORK.format(stage=is_stage, patience=0), stdout=out)
        assert ("30/30" in said) == shown
        assert ((tmp_path / "out").read_text() == "") == shown
