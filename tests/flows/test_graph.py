"""The stage graph that the flow reads from DVC, and what it selects of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.graph import Graph, ancestors, cell_of, outdated, select, stage_graph
from turnwise.config import read_params
from turnwise.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return stage_graph(ROOT)


def test_the_way_of_the_data(graph: Graph) -> None:
    params = read_params(ROOT / "params.yaml")
    arm, seed = next(iter(params.arms)), params.seeds[0]
    assert graph["data"] == ()
    assert graph[f"sft@{seed}"] == ("data",)
    assert graph[f"rollout@{seed}"] == ("data", f"sft@{seed}")
    assert f"rollout@{seed}" in graph[f"judge@{seed}"]
    assert f"judge@{seed}" in graph[f"sweep@{seed}"]
    assert set(graph[f"rl@{arm}-{seed}"]) == {
        "data",
        *(f"{name}@{seed}" for name in ("sft", "rollout", "judge", "sweep")),
    }
    assert graph[f"evaluate@{arm}-{seed}"] == ("data", f"rl@{arm}-{seed}")
    assert graph[f"evaluate_sft@{seed}"] == ("data", f"sft@{seed}")
    assert len(graph) == 3 + 5 * len(params.seeds) + 2 * len(params.seeds) * len(params.arms)


def test_analyze_waits_for_every_cell_and_report_for_all(graph: Graph) -> None:
    assert ancestors(graph, "analyze") == set(graph) - {"analyze", "report"}
    assert ancestors(graph, "report") == set(graph) - {"report"}


def test_cells_do_not_wait_for_each_other(graph: Graph) -> None:
    for stage in graph:
        arm, seed = cell_of(stage)
        if seed is not None:
            assert {cell_of(need)[1] for need in ancestors(graph, stage)} <= {None, seed}
            assert {cell_of(need)[0] for need in ancestors(graph, stage)} <= {None, arm}


def test_upstream_stands_first(graph: Graph) -> None:
    order = list(graph)
    assert all(order.index(need) < order.index(stage) for stage in graph for need in graph[stage])


@pytest.mark.parametrize(
    ("stage", "cell"),
    [("data", (None, None)), ("sft@12", (None, 12)), ("rl@turn_mean-3", ("turn_mean", 3)), ("report", (None, None))],
)
def test_cell_of_an_address(stage: str, cell: tuple[str | None, int | None]) -> None:
    assert cell_of(stage) == cell


def test_selecting_an_arm_keeps_what_it_shares(graph: Graph) -> None:
    chosen = select(graph, ["turnwise"], [0])
    assert chosen == [stage for stage in graph if cell_of(stage) in {(None, None), (None, 0), ("turnwise", 0)}]
    assert {"data", "sft@0", "evaluate_sft@0", "rl@turnwise-0", "evaluate@turnwise-0", "analyze"} <= set(chosen)


@given(st.data())
def test_selecting_all_is_selecting_none(data: st.DataObject) -> None:
    arms, seeds = ["grpo", "turnwise"], [0, 1]
    cells = [f"rl@{arm}-{seed}" for arm in arms for seed in seeds]
    toy: Graph = {"data": (), **dict.fromkeys(cells, ("data",)), "analyze": tuple(cells)}
    assert select(toy, arms, seeds) == select(toy, None, None) == list(toy)
    some = data.draw(st.lists(st.sampled_from(arms), unique=True))
    assert {cell_of(stage)[0] for stage in select(toy, some, None)} == {None, *some}


def test_unknown_names_are_refused(graph: Graph) -> None:
    with pytest.raises(UserError, match=r"arms: 'grop' .*grpo"):
        select(graph, ["grop"], None)
    with pytest.raises(UserError, match=r"seeds: 99 "):
        select(graph, None, [99])


def test_a_dvc_yaml_that_is_none(toy) -> None:
    (toy.root / "dvc.yaml").write_text("stages: {data: {cmd: [}}")
    with pytest.raises(UserError, match=r"dvc\.yaml"):
        stage_graph(toy.root)


def test_what_never_ran_is_outdated(toy) -> None:
    assert outdated(["data", "sft@0"], toy.root) == ["data", "sft@0"]
    assert outdated([], toy.root) == []
