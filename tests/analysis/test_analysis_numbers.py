"""Counts and intervals against hand-worked values and scipy."""

import json
from pathlib import Path

import numpy as np
import pytest
from analysis_experiment import TERMS, metrics_of, params_with, table_of, write_experiment
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp, ttest_rel

from turnwise.analysis import ablation_markdown, ablation_text, analyze, report
from turnwise.analysis import redundancy as repeats_module
from turnwise.analysis import sign_flips as flips_module
from turnwise.analysis.ablation import ablation, ablation_csv, mean_interval, paired_difference
from turnwise.analysis.cells import by_arm, find_cells, main_arm, share
from turnwise.analysis.published import published
from turnwise.config import Arm
from turnwise.errors import UserError
from turnwise.files import write_json
from turnwise.tables import build_catalogue, query, read_table

# Two trajectories of three turns in a live group, then one of a dropped group (flipped is null there).
GLOBAL = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0]
TURN = [1.0, -0.5, 0.0, -1.0, -2.0, -0.1, 0.0, 0.0, 0.0]
REPEAT = [None, True, True, None, True, False, None, True, None]


@pytest.fixture
def decisions(tmp_path: Path):
    rows = [
        {
            "update": 1, "episode": "b" if i > 5 else "a", "trajectory": i // 3, "turn": i % 3 + 1, "live": i < 6,
            "kind": "silence" if REPEAT[i] is None else "reply", "repeat": REPEAT[i],
            "advantage_global": GLOBAL[i], "advantage_turn": TURN[i], "flipped": GLOBAL[i] * TURN[i] < 0 if i < 6 else None,
        }
        for i in range(9)
    ]  # fmt: skip
    table_of("decisions", rows, tmp_path / "decisions.parquet")
    return read_table("decisions", tmp_path / "decisions.parquet")


def test_flips_by_hand(decisions):
    found = flips_module.with_shares(flips_module.tally(decisions))
    assert found["flip_share"] == 1 / 6
    assert found["flip_share_after_turn_1"] == 1 / 4
    assert found["mixed_share"] == 1 / 2
    assert (found["zero_global"], found["zero_turn"], found["dropped_decisions"]) == (0, 1, 3)


def test_repeats_by_hand_and_their_own_denominator(decisions):
    found = repeats_module.with_shares(repeats_module.tally(decisions))
    assert (found["replies"], found["dropped_replies"]) == (3, 1)
    assert found["negative_global"] == 1 / 3
    assert found["negative_turn"] == 2 / 3
    assert found["zero_turn_count"] == 1


def test_nothing_counted_gives_no_share(decisions):
    dropped = decisions.slice(6)
    assert flips_module.with_shares(flips_module.tally(dropped))["flip_share"] is None
    assert repeats_module.with_shares(repeats_module.tally(dropped))["negative_turn"] is None


def test_pooled_counts_are_the_sum_of_the_seeds(experiment, params):
    found = by_arm(find_cells(experiment, params), flips_module.tally, flips_module.with_shares)
    assert list(found) == ["sft", *params.arms]
    for arm in found.values():
        for count in ("decisions", "flipped", "trajectories", "mixed", "dropped_decisions"):
            assert arm["pooled"][count] == sum(seed[count] for seed in arm["seeds"].values())
        assert arm["pooled"]["flip_share"] == share(arm["pooled"]["flipped"], arm["pooled"]["decisions"])


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 2), min_size=2, max_size=8))
def test_intervals_are_students(pairs):
    ours, theirs = zip(*pairs, strict=True)
    seeds = [str(seed) for seed in range(len(pairs))]
    found = paired_difference(dict(zip(seeds, ours, strict=True)), dict(zip(seeds, theirs, strict=True)))
    if np.ptp(np.subtract(ours, theirs)) > 1e-6:
        low, high = ttest_rel(ours, theirs).confidence_interval(0.95)
        np.testing.assert_allclose(found["interval"], [low, high], rtol=1e-6, atol=1e-6)
    if np.ptp(ours) > 1e-6:
        low, high = ttest_1samp(ours, 0).confidence_interval(0.95)
        np.testing.assert_allclose(mean_interval(ours)["interval"], [low, high], rtol=1e-6, atol=1e-6)


def test_one_seed_has_a_mean_and_no_interval():
    assert mean_interval([4.0]) == {"mean": 4.0, "n": 1, "interval": None}
    assert mean_interval([]) == {"mean": None, "n": 0, "interval": None}


def test_a_seed_without_a_value_leaves_its_pair():
    found = paired_difference({"0": 5.0, "1": None, "2": 9.0}, {"0": 4.0, "1": 1.0, "2": 6.0})
    assert (found["n"], found["mean"]) == (2, 2.0)


def test_ablation_has_five_rows_with_every_seed(experiment, params):
    table = ablation(find_cells(experiment, params), params)
    assert list(table["arms"]) == ["sft", "grpo", "turn_mean", "credit", "turnwise"]
    pauc = table["arms"]["turnwise"]["metrics"]["pauc"]
    assert pauc["seeds"] == {str(seed): metrics_of("turnwise", seed)["pauc"] for seed in (0, 1, 2)}
    pairs = [[metrics_of(arm, seed)["pauc"] for seed in (0, 1, 2)] for arm in ("turnwise", "grpo")]
    np.testing.assert_allclose(pauc["difference"]["interval"], ttest_rel(*pairs).confidence_interval(0.95))
    assert table["arms"]["grpo"]["metrics"]["pauc"]["difference"] is None
    assert table["arms"]["credit"]["scored"]["ovo_timing"] == [{"scored": 70, "expected": 72, "unit": "items"}] * 3
    assert len(ablation_csv(table).splitlines()) == 1 + 5 * 4
    for shown in (ablation_text(table), ablation_markdown(table)):
        assert "n = 3 seeds" in shown
        assert "ovo_timing 70 of 72 items" in shown
        assert "repeat rate 5 to 7 replies" in shown
        assert f"{pauc['mean']:.1f} [" in shown


def test_one_seed_shows_no_interval(tmp_path):
    params = params_with(seeds=[5], arms={"credit": {"credit": "turnwise", "alpha": 1.0}})
    write_experiment(tmp_path, params, updates=1)
    table = ablation(find_cells(tmp_path, params), params)
    assert table["reference"] is None
    assert "[" not in ablation_text(table).replace("interval [", "")
    assert "one seed, so no interval" in ablation_markdown(table)


def test_published_rows_follow_the_configuration_and_not_the_name():
    params = params_with(
        arms={"mine": {"credit": "turnwise", "alpha": 1.0, "aggregation": "turn-mean"}, "last": {"credit": "grpo"}}
    )
    assert published(params.arms["mine"])["pauc"] == 43.56
    assert published(None)["timing_f1"] == 0.57
    half = params.arms["mine"].model_copy(update={"alpha": 0.5})
    assert set(published(half).values()) == {None}
    assert main_arm(params) == "mine"


def test_missing_cells_are_named(tmp_path):
    params = params_with(seeds=[0])
    write_experiment(tmp_path, params, updates=1)
    (tmp_path / "runs/credit/0/updates.parquet").unlink()
    (tmp_path / "runs/sft/0/eval/metrics.json").unlink()
    with pytest.raises(
        UserError, match=r"2 of 5 cells.*sft-0 \(eval/metrics.json\); credit-0 \(updates.parquet\).*dvc repro"
    ):
        find_cells(tmp_path, params)


def test_scores_of_different_judges_are_refused(tmp_path):
    params = params_with(seeds=[0])
    write_experiment(tmp_path, params, updates=1)
    path = tmp_path / "runs/grpo/0/eval/metrics.json"
    write_json(path, {**json.loads(path.read_text()), "judge": "another"})
    with pytest.raises(UserError, match=r"judge.*another"):
        ablation(find_cells(tmp_path, params), params)


def test_the_papers_row_needs_the_papers_arm():
    arm = Arm(credit="turnwise", alpha=1.0, aggregation="turn-mean")
    assert published(arm)["pauc"] == 43.56
    for change in ({"ratio_level": "turn"}, {"clip_low": 0.1}, {"clip_high": 0.3}, {"dual_clip": 2.0}):
        assert published(arm.model_copy(update=change))["pauc"] is None
    assert published(None)["timing_f1"] == 0.57


def test_a_null_leaves_its_seed_out_and_the_n_is_said_for_means_and_differences(tmp_path):
    params = params_with(arms={"grpo": {"credit": "grpo"}, "credit": {"credit": "turnwise", "alpha": 1.0}})
    write_experiment(tmp_path, params, updates=1)
    for cell in ("grpo/0", "sft/0", "sft/1", "sft/2"):
        path = tmp_path / "runs" / cell / "eval/metrics.json"
        write_json(path, {**json.loads(path.read_text()), "repetition": None})
    analyze(tmp_path, params, tmp_path / "reports")
    report(tmp_path, params, tmp_path / "reports")
    table = json.loads((tmp_path / "reports/ablation.json").read_text())
    entry = {arm: row["metrics"]["repetition"] for arm, row in table["arms"].items()}
    assert [entry[arm]["n"] for arm in ("sft", "grpo", "credit")] == [0, 2, 3]
    assert entry["grpo"]["mean"] == np.mean([metrics_of("grpo", seed)["repetition"] for seed in (1, 2)])
    assert (entry["credit"]["difference"]["n"], entry["sft"]["difference"]["n"]) == (2, 0)
    assert ablation_text(table).count("(n = 2)") == 1
    assert ablation_markdown(table).count("(n = 2)") == 2
    assert (tmp_path / "reports/index.html").read_text().count("(n = 2)") == 3  # mean, difference, answer


def test_the_catalogue_has_the_same_numbers(tmp_path: Path):
    params = params_with(seeds=[0, 1], arms={name: params_with().arms[name] for name in ("grpo", "turnwise")})
    write_experiment(tmp_path, params)
    analyze(tmp_path, params, tmp_path / "reports")
    build_catalogue(
        tmp_path / "turnwise.duckdb", tmp_path, [(c.arm, c.seed) for c in find_cells(tmp_path, params)], TERMS
    )
    for name in ("sign_flips", "redundancy"):
        arms = json.loads((tmp_path / "reports" / f"{name}.json").read_text(encoding="utf-8"))["arms"]
        shown = query(tmp_path / "turnwise.duckdb", f"from {name}").to_pylist()
        found = {(row.pop("arm"), str(row.pop("seed"))): row for row in shown}
        wanted = {(arm, seed): one for arm, row in arms.items() for seed, one in row["seeds"].items()}
        assert found == {cell: pytest.approx(one) for cell, one in wanted.items()}
    table = json.loads((tmp_path / "reports" / "ablation.json").read_text(encoding="utf-8"))["arms"]
    for row in query(tmp_path / "turnwise.duckdb", "from ablation").to_pylist():
        entry = table[row["arm"]]["metrics"][row["metric"]]
        assert [row["low"], row["high"]] == entry["interval"]
        assert {f"seed_{seed}": value for seed, value in entry["seeds"].items()}.items() <= row.items()
        assert {name: row[name] for name in ("n", "mean", "published")}.items() <= entry.items()
        assert row["difference"] == (entry["difference"] or {"mean": None})["mean"]
