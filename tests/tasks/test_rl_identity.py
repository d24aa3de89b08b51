from pathlib import Path

import pytest

from tasks.rl import cell_identity
from turnwise.config import compose, merge, validate
from turnwise.episodes import Episode, Grid

EPISODE = Episode(id="e", clip="clips/a.mp4", task="t", grid=Grid(frame_interval=2, turns=1), queries=(), windows=())


@pytest.fixture
def inputs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("trajectories.parquet", "evidence.parquet", "decisions.parquet", "model/w"):
        (tmp_path / "runs/sft/0" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs/sft/0" / name).write_text(name)
    for name in ("rl.jsonl", "dev.jsonl", "clips/a.mp4"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    return tmp_path


def name(**changes) -> str:
    params = validate(merge(compose([], Path(__file__).parents[2] / "profiles"), changes), "x")
    return cell_identity(params, "grpo", 0, Path("runs/sft/0"), [EPISODE])


def test_a_checkpoint_belongs_to_its_parameters_and_inputs(inputs):
    first = name()
    assert first == name()
    assert first != name(rl={"lr": 0.5})
    assert first == name(evaluate={"omega": 0.1}, data={"seed": 1})
    for path in ("runs/sft/0/model/w", "runs/sft/0/decisions.parquet", "data/rl.jsonl", "data/clips/a.mp4"):
        before = (inputs / path).read_text()
        (inputs / path).write_text("changed")
        assert name() != first
        (inputs / path).write_text(before)
    assert name() == first
