"""What the rules expect, against the true gradient, over every group that the toy policy can roll out."""

from pathlib import Path

import numpy as np
import pytest
import toy_policy
from toy_policy import GROUP, PLAIN

TOY = toy_policy.toy()
MEMBERS, PROBABILITY = toy_policy.groups(TOY)
WEIGHTS = toy_policy.weights(TOY, MEMBERS, "seq-mean-token-sum")


def expected(rule, settings, scale=1.0):
    advantage = toy_policy.advantages(TOY, MEMBERS, rule, settings) * scale
    return PROBABILITY @ toy_policy.estimates(TOY, MEMBERS, advantage, WEIGHTS)


def variance(rule, settings):
    advantage = toy_policy.advantages(TOY, MEMBERS, rule, settings) * PLAIN
    estimate = toy_policy.estimates(TOY, MEMBERS, advantage, WEIGHTS)
    return PROBABILITY @ ((estimate - PROBABILITY @ estimate) ** 2).sum(1)


def test_the_toy_is_a_distribution_with_the_gradient_of_its_reward():
    assert PROBABILITY.sum() == pytest.approx(1.0, abs=1e-12)
    assert TOY.probability.sum() == pytest.approx(1.0, abs=1e-12)
    ones = np.einsum("n,nlp->p", TOY.probability, TOY.slopes)
    np.testing.assert_allclose(ones, 0, atol=1e-12)  # the score function has mean zero
    changes = np.diff(TOY.scores, axis=1)
    same_action = TOY.actions[:, 2] == toy_policy.SHORT
    assert np.ptp(changes[same_action, 2]) > 0.1  # what a reply adds depends on what was said: no sum over turns


def test_rloo_is_unbiased():
    np.testing.assert_allclose(expected("rloo", {}), TOY.gradient, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_every_alpha_expects_the_same_before_the_deviation_and_the_clip(alpha):
    """(G - 1) / G of the true gradient, since the group's mean holds the trajectory itself."""
    plain = expected("turnwise", {"alpha": alpha, "eps": PLAIN, "a_max": np.inf}, PLAIN)
    np.testing.assert_allclose(plain, TOY.gradient * (GROUP - 1) / GROUP, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(expected("dr_grpo", {}), plain, rtol=1e-9, atol=1e-12)


def test_alpha_changes_the_variance():
    plain = {"eps": PLAIN, "a_max": np.inf}
    assert variance("turnwise", {"alpha": 1.0, **plain}) < variance("turnwise", {"alpha": 0.0, **plain})


def test_the_page_shows_the_table():
    page = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
    assert "\n".join(toy_policy.table(TOY)) in page, "run: python tests/credit/toy_policy.py"
