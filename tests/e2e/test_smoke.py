"""The whole experiment with the profile `smoke`, both ways: a bare `dvc repro`, and a Prefect server with the deployment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from turnwise.config import read_params
from turnwise.tables import query

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import stack  # noqa: E402

DVC = [sys.executable, "-m", "dvc"]
FREE = {"reports/index.html", "turnwise.duckdb"}
"""Outputs outside the promise of identity: the report shows times, DuckDB files are never twice the same."""


class Project:
    """A scratch copy of the working tree with the profile `smoke`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        stack.copy_tree(root)
        plain = {name: value for name, value in stack.ENV.items() if not name.startswith(("PREFECT_", "TURNWISE_"))}
        self.env = {**plain, "PYTHONPATH": str(root), "DVC_SITE_CACHE_DIR": f"{root}.site"}
        self.run(str(stack.BIN / "turnwise"), "profile", "use", "smoke")

    def run(self, *command: str, **env: str) -> str:
        """Run a command to its end; what it printed. Fails where the command does."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def hashes(self) -> dict[str, str]:
        """What dvc.lock says that every output is."""
        lock = yaml.safe_load((self.root / "dvc.lock").read_text(encoding="utf-8"))
        outs = [out for stage in lock["stages"].values() for out in stage["outs"]]
        return {out["path"]: out["md5"] for out in outs if out["path"] not in FREE}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Project]:
    """Two copies of the working tree as it is at one time."""
    folder = tmp_path_factory.mktemp("smoke")
    return Project(folder / "serial"), Project(folder / "deployed")


@pytest.fixture(scope="module")
def serial(copies: tuple[Project, Project]) -> Project:
    """Finished by `dvc repro`."""
    copies[0].run(*DVC, "repro")
    return copies[0]


@pytest.fixture(scope="module")
def deployed(copies: tuple[Project, Project]) -> tuple[Project, str]:
    """Finished by the deployment, with what was printed."""
    printed = copies[1].run(sys.executable, "scripts/stack.py", "ablation", TURNWISE_PORT=stack.free_port())
    return copies[1], printed


def test_the_deployment_ends_with_the_table_and_everything_up_to_date(deployed: tuple[Project, str]) -> None:
    project, printed = deployed
    assert "prefect deployment run turnwise/full-ablation" in printed
    assert "ablation: Completed" in printed
    for words in ("PAUC", "Timing F1", "reports/index.html", "mlflow ui", "turnwise.duckdb"):
        assert words in printed
    assert "Data and pipelines are up to date." in project.run(*DVC, "repro")
    assert not (project.root / ".prefect/server.pid").exists()


def test_mlflow_has_a_finished_run_of_every_cell(
    deployed: tuple[Project, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = deployed
    monkeypatch.chdir(project.root)
    params, client = read_params(), MlflowClient("sqlite:///mlflow.db")
    found = client.search_runs([client.get_experiment_by_name("turnwise").experiment_id], "tags.kind = 'cell'")
    cells = {(arm, str(seed)) for arm in ("sft", *params.arms) for seed in params.seeds}
    assert {(run.data.tags["arm"], run.data.tags["seed"]) for run in found if "pauc" in run.data.metrics} == cells
    assert {run.info.status for run in found} == {"FINISHED"}


def test_both_ways_give_the_same_bytes(serial: Project, deployed: tuple[Project, str]) -> None:
    hashes = serial.hashes()
    cell = {f"runs/turnwise/0/{name}" for name in ("model", "decisions.parquet", "eval/metrics.json")}
    assert hashes.keys() >= {*cell, "reports/figures", "reports/curves.csv", "reports/ablation.json"}
    assert hashes == deployed[0].hashes()


def test_the_tables_are_read_back_with_sql(deployed: tuple[Project, str], monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = deployed
    monkeypatch.chdir(project.root)
    params = read_params()

    def rows(sql: str) -> list[dict[str, object]]:
        return query(Path("turnwise.duckdb"), sql).to_pylist()

    cells = {(arm, seed) for arm in params.arms for seed in params.seeds}
    trained = rows("select distinct arm, seed from updates")
    assert {(row["arm"], row["seed"]) for row in trained} == cells
    updates = rows("select arm, count(*) n, min(update) low, max(update) high from updates group by arm")
    assert {(row["n"], row["low"], row["high"]) for row in updates} == {(params.rl.updates, 1, params.rl.updates)}
    first = rows("select count(*) n from decisions where turn = 1 and flipped")
    assert first == [{"n": 0}]
    off = rows("select count(*) n from decisions where abs(earned + remaining - (reward - silent_reward)) > 1e-9")
    assert off == [{"n": 0}]
    joined = rows("select count(*) n from decisions join evidence using (arm, seed, update, episode, trajectory, turn)")
    assert joined == rows("select count(*) n from decisions")
    assert {row["arm"] for row in rows("select distinct arm from samples")} == {"sft", *params.arms}


def test_update_one_is_the_same_for_all_arms(deployed: tuple[Project, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(deployed[0].root)
    sql = "select distinct episode, trajectory, turn, text, reward from decisions where update = 1 and arm != 'sft'"
    per_arm = "select arm, count(*) n from decisions where update = 1 and arm != 'sft' group by arm"
    counts = {row["n"] for row in query(Path("turnwise.duckdb"), per_arm).to_pylist()}
    assert counts == {query(Path("turnwise.duckdb"), sql).num_rows}


def test_a_changed_arm_runs_its_own_cells_only(serial: Project) -> None:
    path = serial.root / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    params["arms"]["turnwise"]["alpha"] = 0.5
    path.write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    ran = re.findall(r"Running stage '([^']+)'", serial.run(*DVC, "repro"))
    assert ran == ["rl@turnwise-0", "evaluate@turnwise-0", "analyze", "report"]


def test_a_wrong_parameter_is_one_message(tmp_path: Path) -> None:
    project = Project(tmp_path / "turnwise")
    path = project.root / "params.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("alpha:", "alhpa:"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "scripts/stack.py", "ablation"],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch(r"error: params\.yaml: arms\.turnwise\.alhpa: .*\n", done.stderr)
    assert not (project.root / "data").exists()
