"""The judge stage, and the whole smoke ablation, with a judge behind HTTP in place of the rule judge."""

import sys
from pathlib import Path

import pytest
import yaml
from judge_server import JudgeServer, changed

from tasks import judge as stage
from turnwise.cli.profiles import params_yaml
from turnwise.config import compose, merge
from turnwise.episodes import Episode, Grid, Query, Window, write_records
from turnwise.errors import UserError
from turnwise.records import Action, Trajectory
from turnwise.tables import evidence_from, read_table, trajectory_columns, write_table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
SAID = (None, "Something red", "striped red", "Something striped and red", "blue", "plain blue", "It is plain and blue")


def episode(number):
    windows = tuple(
        Window(text=text, related=(start, start + 6), reply=(start, start + 7))
        for text, start in (("striped red", 2.0), ("plain blue", 8.0))
    )
    query = Query(text="Tell me about every new object.", time=0.0)
    grid = Grid(frame_interval=2.0, turns=7)
    return Episode(
        id=f"e{number}", clip="a.mp4", task="new_object", grid=grid, queries=(query,), windows=windows
    )  # fmt: skip


def trajectory(number, index):
    texts = [SAID[(turn * (index + 1) + number) % len(SAID)] for turn in range(7)]
    actions = (
        Action((turn,), (0.0,), text or "NO REPLY", "reply" if text else "silence", False)
        for turn, text in enumerate(texts)
    )
    return Trajectory(f"e{number}", index, tuple(actions))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rolled-out groups of seed 0, in the folder that stages run in."""
    write_records(tmp_path / "data/rl.jsonl", [episode(n) for n in range(5)])
    rolled = [trajectory(n, i) for n in range(5) for i in range(4)]
    write_table("trajectories", trajectory_columns(1, rolled), tmp_path / "runs/sft/0/trajectories.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def over_http(url, levels=5):
    spec = {"kind": "openai", "levels": levels, "model": "judge", "server": "test"}
    return {"train": spec, "servers": {"test": {"base_url": url, "timeout": 5.0, "retries": 0}}}


def judge(folder, **judges):
    """Run the stage with changes of the section `judge`; the bytes of what it wrote."""
    values = merge(compose([], ROOT / "profiles"), {"seeds": [0], "judge": judges})
    (folder / "params.yaml").write_text(params_yaml(values))
    written = folder / "runs/sft/0/evidence.parquet"
    written.unlink(missing_ok=True)
    stage.main("0")
    return written.read_bytes()


def test_the_stage_writes_the_same_evidence_and_its_second_pass_costs_nothing(folder):
    by_rule = judge(folder)
    with JudgeServer() as server:
        assert judge(folder, **over_http(server.url)) == by_rule
        calls = len(server.bodies)
        assert calls > 20
        judge(folder, **over_http(server.url))
        assert len(server.bodies) == calls
    assert judge(folder, **over_http(server.url)) == by_rule


def test_a_failing_judge_stops_the_stage_or_is_counted(folder):
    with JudgeServer(changed(body=b"{}")) as server:
        with pytest.raises(UserError, match=r"judge\.max_abstained: 0\.1: judge-5 abstained .* unreadable response"):
            judge(folder, **over_http(server.url))
        assert not (folder / "runs/sft/0/evidence.parquet").exists()
        judge(folder, max_abstained=1.0, **over_http(server.url))
    table = read_table("evidence", folder / "runs/sft/0/evidence.parquet")
    assert sum(facts.abstained.sum() for _, facts in evidence_from(table)) > 20


@pytest.mark.slow
def test_the_ablation_over_http_has_the_same_tables(tmp_path):
    """The profile `smoke`, twice: with the rule judge, and with both judges behind HTTP."""
    from test_smoke import DVC, Project

    project = Project(tmp_path / "turnwise")
    project.run(*DVC, "repro", "evaluate", "evaluate_sft")
    by_rule = project.hashes()
    path = project.root / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    with JudgeServer() as server:
        changes = over_http(server.url) | {"eval": {**over_http(server.url, 3)["train"]}}
        path.write_text(yaml.safe_dump(merge(params, {"judge": changes}), sort_keys=False), encoding="utf-8")
        project.run(*DVC, "repro", "evaluate", "evaluate_sft")
        assert server.bodies
    tables = {name for name in by_rule if not name.endswith("metrics.json")}
    assert {name: project.hashes()[name] for name in tables} == {name: by_rule[name] for name in tables}
