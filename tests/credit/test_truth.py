"""What the rules expect, against the true gradient, over every group that the toy policy can roll out."""

from pathlib import Path

import numpy as np
import pytest
import toy_policy
from toy_policy import PLAIN, UNDIVIDED

from turnwise.analysis.comparing import truth
from turnwise.analysis.truth import GROUP, SHORT, UNBIASED, against_truth, make_toy
from turnwise.config import compose, validate

TOY = make_toy()
WEIGHTS = TOY.weights("seq-mean-token-sum")


def expected(rule, settings, scale=1.0):
    return TOY.chances @ TOY.estimates(TOY.advantages(rule, settings) * scale, WEIGHTS)


def variance(rule, settings):
    estimate = TOY.estimates(TOY.advantages(rule, settings) * PLAIN, WEIGHTS)
    return TOY.chances @ ((estimate - TOY.chances @ estimate) ** 2).sum(1)


def test_the_toy_is_a_distribution_with_the_gradient_of_its_reward():
    assert TOY.chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert TOY.probability.sum() == pytest.approx(1.0, abs=1e-12)
    ones = np.einsum("n,nlp->p", TOY.probability, TOY.slopes)
    np.testing.assert_allclose(ones, 0, atol=1e-12)  # the score function has mean zero
    changes = np.diff(TOY.scores, axis=1)
    same_action = TOY.actions[:, 2] == SHORT
    assert np.ptp(changes[same_action, 2]) > 0.1  # what a reply adds depends on what was said: no sum over turns


def test_rloo_is_unbiased():
    np.testing.assert_allclose(expected("rloo", {}), TOY.gradient, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_every_alpha_expects_the_same_before_the_deviation_and_the_clip(alpha):
    """(G - 1) / G of the true gradient, since the group's mean holds the trajectory itself."""
    plain = expected("turnwise", {"alpha": alpha, **UNDIVIDED}, PLAIN)
    np.testing.assert_allclose(plain, TOY.gradient * (GROUP - 1) / GROUP, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(expected("dr_grpo", {}), plain, rtol=1e-9, atol=1e-12)


def test_alpha_changes_the_variance():
    assert variance("turnwise", {"alpha": 1.0, **UNDIVIDED}) < variance("turnwise", {"alpha": 0.0, **UNDIVIDED})


def test_the_page_shows_the_table():
    page = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
    assert "\n".join(toy_policy.table(TOY)) in page, "run: python tests/credit/toy_policy.py"


def test_settings_that_refuse_a_group_without_spread_have_no_numbers():
    values = compose([])
    values["credit"] |= {"eps": 0.0, "zero_spread": "keep"}
    unbiased, *arms = against_truth(validate(values, "params.yaml"))
    assert unbiased["angle"] is not None
    assert [(row["angle"], row["noise"]) for row in arms] == [(None, None)] * 4
    assert len(truth([*arms, unbiased])["data"]["values"]) == 2


def test_each_arm_stands_with_its_own_rule_settings_and_aggregation():
    values = compose([])
    values["arms"] = {
        "grpo": {"credit": "grpo"},
        "half": {"credit": "turnwise", "alpha": 0.5, "aggregation": "turn-mean"},
        "later": {"credit": "return_to_go", "gamma": 0.9, "aggregation": "token-mean"},
    }
    rows = {row["arm"]: row for row in against_truth(validate(values, "params.yaml"))}
    assert list(rows) == [UNBIASED, "grpo", "half", "later"]
    assert rows[UNBIASED]["angle"] == pytest.approx(0, abs=1e-4)
    assert (rows["half"]["alpha"], rows["later"]["alpha"]) == (0.5, None)
    credit = {"eps": 1e-6, "ddof": 1, "a_max": 5.0, "zero_spread": "drop"}
    for name, rule, settings, aggregation in (
        ("grpo", "grpo", {}, "seq-mean-token-mean"),
        ("half", "turnwise", {"alpha": 0.5}, "turn-mean"),
        ("later", "return_to_go", {"gamma": 0.9}, "token-mean"),
    ):
        found = rows[name]["angle"], rows[name]["noise"]
        assert found == pytest.approx(
            TOY.moments(TOY.advantages(rule, {**credit, **settings}), TOY.weights(aggregation)), rel=1e-12
        )
