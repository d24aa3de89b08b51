"""The stage graph as DVC knows it, and the part of it that a run is asked for. `dvc.yaml` is its only source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

from turnwise.errors import UserError

Graph = Mapping[str, tuple[str, ...]]
"""Each stage, by its address (`rl@grpo-0`), with the stages it needs; upstream stages stand first."""


def stage_graph(root: str | Path = ".") -> Graph:
    """The graph of the `dvc.yaml` in `root`. Raises UserError where DVC cannot read it."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            edges = repo.index.graph
            order = [stage.addressing for stage in repo.index.stages]
            needs = {s.addressing: sorted((u.addressing for u in edges.successors(s)), key=order.index) for s in edges}
    except DvcException as error:
        raise UserError(f"dvc.yaml: {error}; `dvc dag` shows the graph once it is mended") from None
    sorter = TopologicalSorter({stage: needs[stage] for stage in order})
    return {stage: tuple(needs[stage]) for stage in sorter.static_order()}


def cell_of(stage: str) -> tuple[str | None, int | None]:
    """Arm and seed of a stage's address: `rl@grpo-0` is (grpo, 0), `sft@0` is (None, 0), `data` is (None, None)."""
    _, _, key = stage.partition("@")
    arm, _, seed = key.rpartition("-")
    return arm or None, int(seed) if seed else None


def select(graph: Graph, arms: Sequence[str] | None, seeds: Sequence[int] | None) -> list[str]:
    """The stages of these arms and seeds (None: all), with those that belong to no cell, in graph order.

    Raises UserError for an arm or a seed that the graph does not have.
    """
    cells = [cell_of(stage) for stage in graph]
    _known("arms", arms, dict.fromkeys(arm for arm, _ in cells))
    _known("seeds", seeds, dict.fromkeys(seed for _, seed in cells))

    def fits(arm: str | None, seed: int | None) -> bool:
        return (arms is None or arm in (None, *arms)) and (seeds is None or seed in (None, *seeds))

    return [stage for stage, cell in zip(graph, cells, strict=True) if fits(*cell)]


def _known(field: str, asked: Iterable[str | int] | None, known: Collection[str | int | None]) -> None:
    for name in asked or []:
        if name not in known:
            names = ", ".join(str(one) for one in known if one is not None)
            raise UserError(f"{field}: {name!r} is not one of params.yaml's {field}, which are {names}")


def ancestors(graph: Graph, stage: str) -> set[str]:
    """Every stage that `stage` needs, directly or not."""
    return set(graph[stage]).union(*(ancestors(graph, upstream) for upstream in graph[stage]))


def outdated(stages: Sequence[str], root: str | Path = ".") -> list[str]:
    """Those of `stages` whose outputs are missing or not up to date, as `dvc status` sees them."""
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        status = repo.status(targets=list(stages)) if stages else {}
    return [stage for stage in stages if stage in status]
