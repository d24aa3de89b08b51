"""MLflow's own pages over a tracked experiment: the view of the arms that its address opens, and the page that compares."""

import json
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from chromium import SCREENSHOTS

from turnwise.tables import read_table
from turnwise.tracking import track

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import stack


@pytest.fixture(scope="module")
def served(reports, params) -> Iterator[str]:
    """The address of MLflow over the experiment's runs, with the words that `make up` starts it with."""
    root, port = reports.parent, stack.free_port()
    assert track(root, params) == 1 + 3 * len(params.seeds)
    words = [port if word == stack.MLFLOW_PORT else word for word in stack.SERVICES["mlflow"]]
    with (root / "mlflow.log").open("w") as log:
        process = subprocess.Popen([stack.BIN / words[0], *words[1:]], cwd=root, env=stack.ENV, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert time.monotonic() < deadline, (root / "mlflow.log").read_text()
            time.sleep(0.3)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(30)


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except OSError:
        return False


def crashes(page) -> list[str]:
    """What was thrown; MLflow's own page warns of much."""
    return [line for line in page.console if "exceptionId" in line]


def test_the_view_of_the_arms_shows_their_scores_and_curves(page, served, reports):
    page.open(served + stack.ARMS, width=1600, height=1200)
    pauc = json.loads((reports / "ablation.json").read_text())["arms"]["turnwise"]["metrics"]["pauc"]["mean"]
    page.wait(f"document.body.innerText.includes('{pauc:.2f}')", 60)
    text = page.run("document.body.innerText")
    for shown in ("Group by: arm", "pauc", "timing_f1", "dev_reward", "grpo-1", "turnwise-0"):
        assert shown in text, shown
    page.picture(SCREENSHOTS / "mlflow-arms.png")
    assert crashes(page) == []


def test_runs_compare_by_the_same_names(page, served, reports):
    with closing(sqlite3.connect(reports.parent / "mlflow.db")) as db:
        found = db.execute("SELECT name, run_uuid FROM runs WHERE lifecycle_stage = 'active'")
        runs = dict(found)
    asked = f"runs={quote(json.dumps([runs['grpo-0'], runs['turnwise-0']]))}&experiments={quote(json.dumps(['1']))}"
    page.open(f"{served}#/compare-runs?{asked}", width=1600, height=1200)
    page.wait("document.body.innerText.includes('dev_reward')", 60)
    text = page.run("document.body.innerText")
    assert "Comparing 2 Runs" in text
    assert "arm.aggregation\tseq-mean-token-mean\tturn-mean\n" in text
    lines = text.split("\nMetrics\nShow diff only\n")[1].split("\nArtifacts\n")[0].split("\n")
    names = lines[: len(lines) // 3]  # all names, then two values of each
    values = dict(zip(names, zip(lines[len(names) :: 2], lines[len(names) + 1 :: 2], strict=True), strict=True))
    for place, arm in enumerate(("grpo", "turnwise")):
        updates = read_table("updates", reports.parent / "runs" / arm / "0" / "updates.parquet").to_pylist()
        for name in ("alpha", "dev_pauc", "dev_reward"):
            assert float(values[name][place]) == pytest.approx(updates[-1][name], abs=1e-3), name
    page.picture(SCREENSHOTS / "mlflow-compare.png")
    assert crashes(page) == []
