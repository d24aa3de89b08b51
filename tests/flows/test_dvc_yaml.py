"""dvc.yaml against the code: what each stage says it depends on is what its script imports, and its params exist."""

import functools
import io
import json
import shlex
from pathlib import Path

import grimp
import pytest
import yaml
from ruamel.yaml import YAML

from turnwise.analysis.ablation import ablation_csv
from turnwise.analysis.comparing import titles
from turnwise.config import Params, read_params

ROOT = Path(__file__).parents[2]
PIPELINE = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
STAGES = PIPELINE["stages"]
WATCHERS = {"turnwise/progress.py", "turnwise/timings.py", "turnwise/tracking"}
"""They change no output: editing them makes no stage stale."""


@functools.cache
def imports() -> grimp.ImportGraph:
    """Who imports whom in tasks and turnwise."""
    return grimp.build_graph("tasks", "turnwise", cache_dir=None)


def rooms(module: str) -> set[str]:
    """The files and rooms that running a module imports, as paths; the packages' own __init__ hold no code."""
    reached = {module, *imports().find_upstream_modules(module)} - {"tasks", "turnwise"}
    parts = {tuple(name.split(".")[:2]) for name in reached}
    paths = {Path(*part) for part in parts}
    return {str(path if (ROOT / path).is_dir() else path.with_suffix(".py")) for path in paths}


@pytest.mark.parametrize("name", STAGES)
def test_code_deps_are_the_rooms_the_stage_imports(name: str) -> None:
    module = shlex.split(STAGES[name]["cmd"])[2]
    declared = [dep for dep in STAGES[name]["deps"] if dep.startswith(("tasks/", "turnwise/"))]
    assert declared == sorted(rooms(module) - WATCHERS), f"the deps of {name} in dvc.yaml are not what {module} imports"


def test_every_script_is_run_by_a_stage() -> None:
    run = {shlex.split(stage["cmd"])[2] for stage in STAGES.values()}
    scripts = {f"tasks.{p.stem}" for p in (ROOT / "tasks").glob("*.py") if "__main__" in p.read_text(encoding="utf-8")}
    assert run == scripts


@pytest.mark.parametrize("name", STAGES)
def test_params_exist(name: str) -> None:
    values = read_params(ROOT / "params.yaml").model_dump()
    for param in STAGES[name]["params"]:
        found = values
        for part in param.replace("${item.arm}", next(iter(values["arms"]))).split("."):
            assert part in found
            found = found[part]


def test_every_section_reaches_a_stage() -> None:
    read = {param.split(".")[0] for stage in STAGES.values() for param in stage["params"]}
    assert read == set(Params.model_fields)


def test_it_is_laid_out_as_dvc_writes_it() -> None:
    text, written = (ROOT / "dvc.yaml").read_text(encoding="utf-8"), io.StringIO()
    YAML().dump(YAML().load(text), written)
    assert "\n\n" not in text, "`dvc freeze` would put its line after the empty one"
    assert written.getvalue() == text, "`dvc freeze` would change more than its line"


def test_metrics_are_the_headline_scores_alone() -> None:
    metrics = {next(iter(entry)) for stage in STAGES.values() for entry in stage.get("metrics", [])}
    assert {Path(path).name for path in metrics} == {"scores.json"}


def test_plots_have_their_columns_and_templates() -> None:
    columns = {
        "reports/ablation.csv": ablation_csv({"seeds": [], "arms": {}}).strip().split(","),
        "reports/curves.csv": ["update", *titles("pauc")],
    }
    for plot in (next(iter(entry.values())) for entry in PIPELINE["plots"]):
        [(file, y)] = plot["y"].items()
        assert {plot["x"], y} <= set(columns[file])
        template = json.loads((ROOT / ".dvc" / "plots" / f"{plot['template']}.json").read_text(encoding="utf-8"))
        assert template["data"] == {"values": "<DVC_METRIC_DATA>"}


def test_nothing_declared_changes_by_being_read() -> None:
    lines = (ROOT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", "/state", "/timings"} <= set(lines)
