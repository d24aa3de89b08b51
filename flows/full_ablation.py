"""The flow `turnwise` (deployment `full-ablation`): the stages of dvc.yaml as Prefect tasks, in parallel where they may.

DVC says what is stale; Prefect says when, where, retries and shows. Parameters choose stages, never configuration.
"""

import csv
import fcntl
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture, as_completed
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.graph import Graph, ancestors, cell_of, outdated, select, stage_graph
from flows.stages import holding_stages, reproduce, skip, track
from turnwise.config import read_params
from turnwise.errors import UserError


@flow(name="turnwise", task_runner=ThreadPoolTaskRunner())  # type: ignore[arg-type]
def full_ablation(arms: list[str] | None = None, seeds: list[int] | None = None, parallel: int = 2) -> State[Any]:
    """Bring the ablation up to date.

    Args:
        arms: Arms to run; all that params.yaml names when left out.
        seeds: Seeds to run; all that params.yaml names when left out.
        parallel: Stages that may run at the same time.
    """
    try:
        with alone(str(flow_run.id)), holding_stages():
            return ablation(arms, seeds, parallel)
    except UserError as error:
        return Failed(message=str(error))


def ablation(arms: list[str] | None, seeds: list[int] | None, parallel: int) -> State[Any]:
    """The flow's body; its final state says what was left out or failed. Raises UserError."""
    check(parallel)
    graph = stage_graph()
    selected = select(graph, arms, seeds)
    held = [stage for stage in selected if not ancestors(graph, stage) <= set(selected)]
    futures: dict[str, PrefectFuture[Any]] = {}
    run(graph, [stage for stage in selected if stage not in held], parallel, futures)
    left = outdated([stage for stage in graph if stage not in selected]) if held else []
    if left:
        for stage in held:
            skip.submit(stage, cells(left)).wait()
    else:
        run(graph, held, parallel, futures)
    futures["track"] = track.submit()
    if failed := [state.message or "" for state in map(ended, futures.values()) if not state.is_completed()]:
        not_run = ", ".join(stage for stage in selected if stage not in futures)
        return Failed(message="\n".join([*failed, f"not run: {not_run}" if not_run else ""]).strip())
    if left:
        return Completed(message=f"{', '.join(held)} skipped: missing or not up to date are {', '.join(cells(left))}")
    publish(Path("reports"))
    skipped = sum(ended(future).name == "Skipped" for future in futures.values())
    return Completed(message=f"every stage is up to date: {len(selected) - skipped} ran, {skipped} were so before")


@contextmanager
def alone(run: str) -> Iterator[None]:
    """Hold this folder's only place for the run of that id; a run that dies gives it back.

    Raises UserError where it is taken, naming the run that has it.

    Prefect's own limit would stay taken for ever where a run and its server are killed together.
    """
    path = Path(".prefect/flow.lock")
    path.parent.mkdir(exist_ok=True)
    with path.open("a+", encoding="utf-8") as place:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            place.seek(0)
            raise UserError(
                f"run {place.read().strip()} of this flow is at work in this folder; wait for it or cancel it"
            ) from None
        place.truncate(0)
        print(run, file=place, flush=True)
        yield


def check(parallel: int) -> None:
    """Refuse what cannot work before anything starts. Raises UserError."""
    if stage := os.environ.get("DVC_STAGE"):
        raise UserError(f"the flow runs DVC stages and cannot run inside one ({stage}); start it from a shell")
    if parallel < 1:
        raise UserError(f"parallel: must be at least 1, got {parallel}")
    read_params()


def cells(stages: Iterable[str]) -> list[str]:
    """The cells that stages belong to, once each: `grpo-0`, or `sft-0` for what all arms share."""
    named = (cell_of(stage) for stage in stages)
    return list(dict.fromkeys(f"{arm or 'sft'}-{seed}" for arm, seed in named))


def run(graph: Graph, stages: Sequence[str], parallel: int, futures: dict[str, PrefectFuture[Any]]) -> None:
    """Run stages as their needs allow, at most `parallel` at a time, adding them to `futures`.

    What needs a failed stage is not started; everything else still runs.
    """
    sorter = TopologicalSorter({stage: [need for need in graph[stage] if need in stages] for stage in stages})
    sorter.prepare()
    ready: deque[str] = deque()
    running: dict[PrefectFuture[Any], str] = {}
    while True:
        ready.extend(sorter.get_ready())
        while ready and len(running) < parallel:
            stage = ready.popleft()
            upstream = [futures[need] for need in graph[stage] if need in futures]
            futures[stage] = reproduce.submit(stage, wait_for=upstream, return_state=False)
            running[futures[stage]] = stage
        if not running:
            return
        done = next(as_completed(list(running)))
        stage = running.pop(done)
        if ended(done).is_completed():
            sorter.done(stage)


def ended(future: PrefectFuture[Any]) -> State[Any]:
    """The final state of a future, waiting for it."""
    future.wait()
    return future.state


def publish(reports: Path) -> None:
    """The ablation as artifacts of the flow run: Markdown to read, and a table of every metric of every arm."""
    from turnwise.analysis import ablation_markdown

    with (reports / "ablation.csv").open(encoding="utf-8", newline="") as lines:
        create_table_artifact(list(csv.DictReader(lines)), key="ablation-table", description="Percent, 0 to 100.")
    table = json.loads((reports / "ablation.json").read_text(encoding="utf-8"))
    pages = [f"`{(reports / place).resolve()}`" for place in ("index.html", "cards/index.html")]
    places = f"Report: {pages[0]}. Trajectories: {pages[1]}. Tables: `turnwise sql 'from ablation'`. Runs: `make up`."
    create_markdown_artifact(f"{ablation_markdown(table)}\n{places}\n", key="ablation")
