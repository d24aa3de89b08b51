"""The flow over the toy project: selection, failures, retries, parallelism, and what its states say."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import TaskRun
from prefect.testing.utilities import prefect_test_harness

from flows import full_ablation as module
from flows import stages
from turnwise.errors import UserError


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def published(_server: None, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Toy stages have no ablation to publish or track; the calls are recorded."""
    calls: list[Path] = []
    monkeypatch.setattr(module, "publish", calls.append)
    monkeypatch.setattr(stages, "TRACK", ["echo", "tracked"])
    monkeypatch.setattr(stages.reproduce, "retry_delay_seconds", 0)
    return calls


def run(**parameters: Any) -> tuple[Any, dict[str, TaskRun]]:
    """Run the flow; its final state, and its task runs by name."""
    state = module.full_ablation(**parameters, return_state=True)
    return state, task_runs(state.state_details.flow_run_id)


def task_runs(flow_run: UUID) -> dict[str, TaskRun]:
    """The task runs of a flow run by name."""
    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    with get_client(sync_client=True) as client:
        return {run.name: run for run in client.read_task_runs(flow_run_filter=chosen)}


def states(runs: dict[str, TaskRun]) -> dict[str, str]:
    """Names of the states of task runs."""
    return {name: run.state_name or "" for name, run in runs.items()}


CELL = ("sft@0", "rollout@0", "judge@0", "sweep@0", "evaluate_sft@0")


@pytest.mark.slow
def test_a_run_then_nothing_to_do_then_one_arm(toy, published: list[Path]) -> None:
    toy.keep_seeds(0)
    state, runs = run(parallel=2)
    arms = {f"{stage}@{arm}-0" for stage in ("rl", "evaluate") for arm in ("grpo", "turnwise")}
    assert set(states(runs)) == {"data", *CELL, *arms, "analyze", "report", "track"}
    assert state.name == "Completed"
    assert set(states(runs).values()) == {"Completed"}
    assert published == [Path("reports")]
    assert subprocess.run([sys.executable, "-m", "dvc", "status", "-q"], check=False).returncode == 0

    toy.change_arm("turnwise", alpha=0.5)
    _, runs = run(parallel=2)
    ran = {name for name, state in states(runs).items() if state == "Completed"}
    assert ran == {"rl@turnwise-0", "evaluate@turnwise-0", "analyze", "report", "track"}
    assert {name for name, state in states(runs).items() if state == "Skipped"} == set(runs) - ran


@pytest.mark.slow
def test_with_cells_missing_analyze_and_report_are_skipped_naming_them(toy, published: list[Path]) -> None:
    toy.keep_seeds(0)
    state, runs = run(arms=["grpo"])
    assert state.name == "Completed"
    assert set(runs) == {"data", *CELL, "rl@grpo-0", "evaluate@grpo-0", "analyze", "report", "track"}
    for stage in ("analyze", "report"):
        assert runs[stage].state_name == "Skipped"
        assert "turnwise-0" in runs[stage].state.message
        assert "grpo-0" not in runs[stage].state.message
    assert published == []
    assert not Path("reports").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("published")
def test_a_failure_is_tried_twice_a_refusal_once_and_the_rest_goes_on(toy) -> None:
    toy.keep_seeds(0)
    toy.wish({"rl@grpo-0": {"status": 1}, "evaluate@turnwise-0": {"status": 2}})
    state, runs = run(parallel=1)
    assert state.is_failed()
    assert runs["rl@grpo-0"].run_count == 2
    assert runs["evaluate@turnwise-0"].run_count == 1
    assert states(runs)["rl@turnwise-0"] == "Completed"
    assert "rl@grpo-0: exit status" in state.message
    assert "error: rl was told to fail" in state.message
    assert "not run: evaluate@grpo-0, analyze, report" in state.message
    spans = sorted((run.start_time, run.end_time) for name, run in runs.items() if name != "track")
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_it_refuses_what_cannot_work(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="parallel: must be at least 1, got 0"):
        module.ablation(None, None, parallel=0)
    with pytest.raises(UserError, match=r"arms: 'nobody'.*grpo, turnwise"):
        module.ablation(["nobody"], None, parallel=1)
    toy.change_arm("turnwise", alpha=2)
    with pytest.raises(UserError, match=r"params\.yaml: arms\.turnwise\.alpha"):
        module.ablation(None, None, parallel=1)
    monkeypatch.setenv("DVC_STAGE", "data")
    with pytest.raises(UserError, match=r"cannot run inside one \(data\)"):
        module.ablation(None, None, parallel=1)


@pytest.mark.usefixtures("toy")
def test_one_run_at_a_time() -> None:
    with module.alone("first"), pytest.raises(UserError, match="run first of this flow is at work"), module.alone("x"):
        pass
    with module.alone("second"), pytest.raises(UserError, match="run second of this"), module.alone("third"):
        pass


def test_cells_are_named_once() -> None:
    assert module.cells(["rl@grpo-0", "evaluate@grpo-0", "sft@1"]) == ["grpo-0", "sft-1"]
