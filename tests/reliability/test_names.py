"""Names from data stay names: they become no path, SQL or shell, and nothing unpickles."""

import ast
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fuzzing import NASTY
from kill_at import ROOT

from turnwise.config import Arm
from turnwise.records import Action, Trajectory
from turnwise.tables import build_catalogue, query, trajectory_columns, write_table

NAMES = [text for text in NASTY if isinstance(text, str) and text.isprintable() and text]
FORBIDDEN = {"pickle", "os.system", "os.popen", "torch.load", "eval", "exec", "marshal", "shelve"}


def test_names_come_back_from_sql_as_they_are(tmp_path):
    action = Action((1,), (0.0,), "'; drop view trajectories; --", "reply", False)
    rows = trajectory_columns(1, [Trajectory(name, 0, (action,)) for name in NAMES])
    path = tmp_path / "runs/a/0/trajectories.parquet"
    write_table("trajectories", rows, path)
    build_catalogue(tmp_path / "c.duckdb", tmp_path, [("a", 0)], {})
    found = query(tmp_path / "c.duckdb", "select episode, text[1] as text from trajectories").to_pylist()
    assert sorted(row["episode"] for row in found) == sorted(NAMES)
    assert {row["text"] for row in found} == {action.text}
    assert pq.read_table(path).num_rows == len(NAMES)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.duckdb", "runs"]


@pytest.mark.parametrize("name", [*NAMES, "a/b", "..", ".", "a b", "é", "sft"])
def test_an_arm_that_could_be_a_path_is_refused(name):
    from turnwise.config import Params

    with pytest.raises(ValueError, match="arm name"):
        Params._arm_names({name: Arm(credit="grpo")})


@pytest.mark.parametrize("folder", ["turnwise", "tasks", "flows", "scripts"])
def test_nothing_runs_a_shell_or_unpickles(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert list(_faults(path)) == []


def _faults(path: Path) -> list[str]:
    faults = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in FORBIDDEN:
                faults.append(f"{path}:{node.lineno}: {ast.unparse(node.func)}")
            if any(word.arg == "shell" for word in node.keywords):
                faults.append(f"{path}:{node.lineno}: shell")
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            faults += [f"{path}:{node.lineno}: {name}" for name in names if name in FORBIDDEN]
    return faults
