import json
import sys

import numpy as np
import pytest

from tasks.common import run, seed_of, timed
from tasks.sweep import warn
from turnwise.config import compose, validate
from turnwise.episodes import Episode, Grid
from turnwise.errors import UserError
from turnwise.progress import STAGE
from turnwise.records import Group
from turnwise.training.sweeping import Swept

EPISODE = Episode(id="e", clip="a.mp4", task="t", grid=Grid(frame_interval=2, turns=1), queries=(), windows=())


@pytest.fixture(autouse=True)
def stage():
    token = STAGE.set(True)
    yield
    STAGE.reset(token)


def groups(*rewards: float) -> list[Swept]:
    """Groups of two trajectories with these mean rewards; silence earns 1."""
    return [Swept(EPISODE, (), (), Group(scores=np.array([[1.0, r - 0.5], [1.0, r + 0.5]]))) for r in rewards]


def said(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_sweep_says_what_there_is_to_learn_from(capsys):
    warn(groups(1.2, 1.4), [True, True])
    assert said(capsys) == [{"event": "sweep", "groups": 2, "reward": 1.3, "silent_reward": 1.0, "zero_spread": 0.0}]


def test_a_policy_that_earns_no_more_than_silence_is_warned_of(capsys):
    warn(groups(0.8, 1.2), [True, True])
    assert "earns no more than silence" in said(capsys)[1]["message"]


def test_too_many_groups_without_spread_are_warned_of(capsys):
    warn(groups(*[1.5] * 10), [True] * 7 + [False] * 3)
    assert "30% of the groups" in said(capsys)[1]["message"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [(UserError("a.json: x: wrong"), 2), (KeyboardInterrupt(), 130), (FileNotFoundError(2, "", "a.mp4"), 2)],
)
def test_a_fault_is_one_line_and_a_status(monkeypatch, capsys, fault, status):
    def main() -> None:
        raise fault

    monkeypatch.setattr(sys, "argv", ["stage"])
    with pytest.raises(SystemExit) as caught:
        run(main)
    assert caught.value.code == status
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_seed_must_be_one_of_params():
    params = validate(compose([]), "x")
    assert seed_of("2", params) == 2
    for word in ("3", "x", "02"):
        with pytest.raises(UserError, match=r"seeds: .* is not one of \[0, 1, 2\]"):
            seed_of(word, params)


def test_time_and_memory_are_booked_line_by_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with timed("rl", "grpo-0") as book:
        book({"update": 1})
    first, last = [json.loads(line) for line in (tmp_path / "timings/rl/grpo-0.jsonl").read_text().splitlines()]
    assert first == {"update": 1}
    assert last["seconds"] >= 0
    assert last["peak_mb"] > 10


def test_words_that_do_not_fit_are_answered_with_the_usage(monkeypatch, capsys):
    def main(arm: str, seed: str) -> None:
        raise AssertionError(f"called with {arm} {seed}")

    monkeypatch.setattr(sys, "argv", ["tasks/rl.py", "grpo"])
    with pytest.raises(SystemExit) as caught:
        run(main)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "usage: python -m tasks.rl <arm> <seed>\n"
