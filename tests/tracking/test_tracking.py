"""Tracking with the real MLflow and SQLite: rebuilt once or twice, live or afterwards, the runs are the same."""

import contextlib
import json
import logging
import shutil
import subprocess
import sys

import numpy as np
import pytest

from turnwise import tables
from turnwise.config import Params, compose
from turnwise.errors import UserError
from turnwise.files import write_json, write_text
from turnwise.tracking import live_cell, outdated, track

PARAMS = Params.model_validate({**compose(["embedded"]), "seeds": [0]})
SCORES = {"pauc": 61.5, "repetition": 4.0, "timing_f1": 55.0, "streamingbench": 40.0}


def write_updates(root, arm, rewards):
    rows = {name: [None] * len(rewards) for name in tables.schema_of("updates", ("pauc",)).names}
    rows |= {"update": list(range(1, len(rewards) + 1)), "reward": rewards, "alpha": [0.0] * len(rewards)}
    rows |= {"learning_rate": [1e-4] * len(rewards), "skipped_steps": [0] * len(rewards)}
    rows |= {"dropped_trajectories": [0] * len(rewards), "warnings": [None, "chatter", None][: len(rewards)]}
    tables.write_table("updates", rows, root / "runs" / arm / "0" / "updates.parquet")


def experiment(root):
    """`grpo` and `sft` are finished; nothing is there of the other arms."""
    write_updates(root, "grpo", [1.0, float("nan"), 3.0])
    for arm in ("sft", "grpo"):
        write_json(root / "runs" / arm / "0" / "eval" / "metrics.json", SCORES)
    lines = [{"update": u, "rollout": 0.5, "total": 1.0} for u in (1, 2, 3, 9)] + [
        {"seconds": 9.0, "peak_mb": 700.0, "pid": 1}
    ]
    write_text(root / "timings" / "rl" / "grpo-0.jsonl", "\n".join(map(json.dumps, lines)))
    write_text(root / "timings" / "sft" / "0.jsonl", json.dumps(lines[-1]))
    write_text(root / "reports" / "index.html", "<p>report</p>")
    write_text(root / "reports" / "figures" / "signs.svg", "<svg/>")
    out = "stages: {data: {outs: [{path: data, md5: d1.dir}]}, rl@grpo-0: {outs: [{path: runs/grpo/0/model, md5: m1.dir}]}}"
    write_text(root / "dvc.lock", out)


def runs(root):
    """(parents, children by arm) that the store shows."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{root / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("turnwise").experiment_id])
    parents = [run for run in found if run.data.tags["kind"] == "ablation"]
    children = {run.data.tags["arm"]: run for run in found if run.data.tags["kind"] == "cell"}
    assert len(parents) + len(children) == len(found), "a cell has two runs"
    return client, parents, children


def history(client, run, metric):
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)]


def test_without_a_finished_cell_nothing_is_recorded(tmp_path):
    assert track(tmp_path, PARAMS) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_the_pages_say(tmp_path):
    experiment(tmp_path)
    table = "arm,metric,n,mean\nsft,pauc,1,40.04\nsft,repetition,0,\ngrpo,pauc,1,61.5\n"
    write_text(tmp_path / "reports" / "ablation.csv", table)
    track(tmp_path, PARAMS)
    client, (parent,), children = runs(tmp_path)
    assert "| sft | 40.0 | - |  |  |" in parent.data.tags["mlflow.note.content"]
    note = children["grpo"].data.tags["mlflow.note.content"]
    assert note.startswith("**grpo**, seed 0.")
    assert "| 61.5 | 4.0 | 55.0 | 40.0 |" in note
    tags = client.get_experiment_by_name("turnwise").tags
    view = json.loads(tags["mlflow.sharedViewState.arms"])
    logged = {*children["grpo"].data.metrics, *tables.schema_of("updates", ("pauc",)).names}
    assert {chart["metricKey"] for chart in view["compareRunCharts"]} <= logged


def test_track_rebuilds_and_twice_is_once(tmp_path):
    experiment(tmp_path)
    assert track(tmp_path, PARAMS) == 3
    client, (parent,), children = runs(tmp_path)
    grpo = children["grpo"]
    assert set(children) == {"sft", "grpo"}
    assert history(client, grpo, "reward") == [(1, 1.0), (3, 3.0)]
    assert history(client, grpo, "seconds_rollout") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert grpo.data.metrics | {**SCORES, "seconds_rl": 9.0, "peak_mb_rl": 700.0} == grpo.data.metrics
    assert children["sft"].data.metrics == {**SCORES, "seconds_sft": 9.0, "peak_mb_sft": 700.0}
    assert grpo.data.params["arm.aggregation"] == "seq-mean-token-mean"
    assert grpo.data.params["data.seed"] == parent.data.params["data.seed"] == "7"
    assert parent.data.params["arms.turnwise.alpha"] == "1.0"
    tags = {
        "dvc.data": "d1.dir",
        "warnings": "update 2: chatter",
        "dvc.model": "m1.dir",
        "profile": "embedded",
        "mlflow.parentRunId": parent.info.run_id,
    }
    assert grpo.data.tags | tags == grpo.data.tags
    assert grpo.info.status == parent.info.status == "FINISHED"
    files = [item.path for item in client.list_artifacts(parent.info.run_id, "reports")]
    assert files == ["reports/figures", "reports/index.html"]
    assert (tmp_path / "mlartifacts" / parent.info.run_id / "artifacts/reports/figures/signs.svg").is_file()

    before = {parent.info.run_id, *(run.info.run_id for run in children.values())}
    assert track(tmp_path, PARAMS) == 3
    _, (parent,), children = runs(tmp_path)
    assert {parent.info.run_id, *(run.info.run_id for run in children.values())} == before

    write_updates(tmp_path, "grpo", [7.0])
    shutil.rmtree(tmp_path / "reports" / "figures")
    assert track(tmp_path, PARAMS) == 3
    client, (parent,), again = runs(tmp_path)
    assert again["sft"].info.run_id == children["sft"].info.run_id
    assert history(client, again["grpo"], "reward") == [(1, 7.0)]
    assert [item.path for item in client.list_artifacts(parent.info.run_id, "reports")] == ["reports/index.html"]

    other = PARAMS.model_copy(update={"rl": PARAMS.rl.model_copy(update={"lr": 0.5})})
    track(tmp_path, other)
    found = client.search_runs([parent.info.experiment_id], "tags.kind = 'ablation'")
    assert len({run.data.tags["config"] for run in found}) == len(found) == 2


def test_a_cell_of_other_parameters_is_left_out_and_named(tmp_path):
    experiment(tmp_path)
    ran = "params: {params.yaml: {arms.grpo: {credit: grpo}, rl: {lr: 1e-06}}}"  # as DVC writes it
    write_text(tmp_path / "dvc.lock", f"stages: {{rl@grpo-0: {{{ran}}}, sft@0: {{outs: []}}}}")
    write_text(tmp_path / "params.yaml", "arms: {grpo: {credit: grpo}}\nrl: {lr: 0.000001}\n")
    assert outdated(tmp_path, PARAMS) == []
    write_text(tmp_path / "params.yaml", "arms: {grpo: {credit: grpo}}\nrl: {lr: 0.2}\n")
    assert outdated(tmp_path, PARAMS) == [("grpo", 0)]
    assert track(tmp_path, PARAMS) == 2
    assert set(runs(tmp_path)[2]) == {"sft"}


@pytest.mark.parametrize(
    ("place", "damage", "message"),
    [
        ("mlflow.db", b"junk", r"mlflow\.db: .*file is not a database; move it away"),
        ("dvc.lock", b"schema: '2.0'\n", r"dvc\.lock: stages: must hold"),
        ("timings/rl/grpo-0.jsonl", b'{"update": 1, "tot', r"grpo-0\.jsonl:1: no line of timings"),
        ("runs/sft/0/eval/metrics.json", b"x", r"metrics\.json: not valid JSON .*evaluate stage again"),
        ("runs/sft/0/eval/metrics.json", b"{}", r"metrics\.json: pauc: is missing"),
    ],
)
def test_a_damaged_file_is_one_message(tmp_path, place, damage, message):
    experiment(tmp_path)
    (tmp_path / place).write_bytes(damage)
    with pytest.raises(UserError, match=message):
        track(tmp_path, PARAMS)


def test_a_live_cell_is_resumed_restarted_and_then_tracked(tmp_path):
    with contextlib.suppress(RuntimeError), live_cell(tmp_path, PARAMS, "grpo", 0) as live:
        live.log(1, {"update": 1, "reward": 1.0, "flip_share": None})
        live.log(2, {"update": 2, "reward": np.float64(2.0), "seconds_rollout": 0.5})
        raise RuntimeError
    client, (parent,), children = runs(tmp_path)
    run = children["grpo"]
    assert run.info.status == "FAILED"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    with live_cell(tmp_path, PARAMS, "grpo", 0) as live:
        live.log(2, {"reward": 2.0})
        live.log(3, {"reward": 3.0})
    _, _, children = runs(tmp_path)
    assert (children["grpo"].info.run_id, children["grpo"].info.status) == (run.info.run_id, "FINISHED")
    assert history(client, run, "reward") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    with live_cell(tmp_path, PARAMS, "grpo", 0) as live:
        live.log(1, {"reward": 5.0})
    client, _, children = runs(tmp_path)
    assert history(client, children["grpo"], "reward") == [(1, 5.0)]
    experiment(tmp_path)
    track(tmp_path, PARAMS)
    client, _, children = runs(tmp_path)
    assert history(client, children["grpo"], "reward") == [(1, 1.0), (3, 3.0)]


def test_training_goes_on_without_a_usable_database(tmp_path, caplog):
    (tmp_path / "mlflow.db").write_bytes(b"no database at all" * 100)
    with caplog.at_level(logging.WARNING), live_cell(tmp_path, PARAMS, "grpo", 0) as live:
        live.log(1, {"reward": 1.0})
    assert "turnwise track" in caplog.text


@pytest.mark.slow
def test_two_processes_at_once_share_one_parent(tmp_path):
    code = (
        "import sys, pathlib; from turnwise.config import *; from turnwise.tracking import live_cell\n"
        "params = Params.model_validate({**compose(['embedded']), 'seeds': [0]})\n"
        "with live_cell(pathlib.Path(sys.argv[1]), params, sys.argv[2], 0) as live:\n"
        "    for u in range(1, 41): live.log(u, {'reward': u, **{f'm{k}': k for k in range(30)}})\n"
    )
    arms = ("grpo", "turnwise", "credit")
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), arm], stderr=subprocess.PIPE) for arm in arms
    ]
    assert [b"training goes on" in worker.communicate()[1] for worker in workers] == [False] * 3
    client, parents, children = runs(tmp_path)
    assert len(parents) == 1
    assert {arm: len(history(client, run, "reward")) for arm, run in children.items()} == dict.fromkeys(arms, 40)
