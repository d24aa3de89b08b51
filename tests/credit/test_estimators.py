"""The rules that people compare against: worked values, what they share, and how they relate to each other."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.credit import (
    advantage_figures,
    anchors,
    clipped_by_spread,
    difference,
    dr_grpo,
    estimators,
    gdpo,
    gigpo,
    grpo,
    keywords,
    mt_grpo,
    return_to_go,
    rloo,
    turnwise,
)
from turnwise.records import Group

SCORES = np.array([[0.5, 1.5, 1.0, 3.0], [0.5, 0.5, 2.0, 2.0], [0.5, 1.0, 1.0, 1.0]])
"""G = 3, T = 3. R = 3, 2, 1: mean 2, sigma 1. Increments [1, -.5, 2], [0, 1.5, 0], [.5, 0, 0]."""


@st.composite
def full_groups(draw, batch=()):
    """Groups [..., G, T + 1] with two terms, weights and anchors, of tied and of arbitrary values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (*batch, draw(st.integers(2, 5)), draw(st.integers(2, 6)))
    pick = draw(st.booleans())
    terms = {n: rng.choice([0.0, 0.5, 1.0], shape) if pick else rng.normal(0, 3, shape) for n in ("pauc", "repeats")}
    for term in terms.values():
        term[..., 0] = 0.375
    weights = {"pauc": 3.0, "repeats": 2.0}
    anchor = rng.integers(0, 4, (*shape[:-1], shape[-1] - 1))
    return Group(sum(weights[n] * terms[n] for n in terms), terms, weights, anchor)


def test_the_nine():
    assert sorted(estimators()) == sorted(
        ["grpo", "dr_grpo", "rloo", "turnwise", "difference", "return_to_go", "mt_grpo", "gigpo", "gdpo"]
    )
    assert keywords(estimators()["gigpo"]) == ["gamma", "turn_weight", "eps", "ddof", "a_max", "zero_spread"]


def test_dr_grpo_and_rloo_by_hand():
    assert dr_grpo(Group(SCORES)).turn.tolist() == [[1.0] * 3, [0.0] * 3, [-1.0] * 3]
    np.testing.assert_allclose(rloo(Group(SCORES)).turn[:, 0], [3 - 1.5, 2 - 2, 1 - 2.5], atol=1e-15)
    assert rloo(Group(SCORES), a_max=1.2).turn[0].tolist() == [1.2] * 3


def test_difference_and_return_to_go_by_hand():
    # Means of the increments at each turn: 0.5, 1/3, 2/3; sigma_R = 1.
    expected = np.array([[0.5, -5 / 6, 4 / 3], [-0.5, 7 / 6, -2 / 3], [0, -1 / 3, -2 / 3]])
    np.testing.assert_allclose(difference(Group(SCORES), eps=0.0).turn, expected, atol=1e-15)
    half = return_to_go(Group(SCORES), gamma=0.5, eps=0.0).turn
    np.testing.assert_allclose(half[0], [0.5 + (-5 / 6 + 2 / 3) / 2, -5 / 6 + 2 / 3, 4 / 3], atol=1e-15)


def test_mt_grpo_by_hand():
    # Turn 1: increments 1, 0, 0.5 with mean 0.5 and sigma 0.5, so 1, -1, 0 on top of A_global = 1, 0, -1.
    assert mt_grpo(Group(SCORES), eps=0.0).turn[:, 0].tolist() == [2.0, -1.0, -1.0]
    assert mt_grpo(Group(SCORES), eps=0.0, turn_weight=0.5).turn[:, 0].tolist() == [1.5, -0.5, -1.0]


def test_gigpo_by_hand():
    # All start alike. Then 2 and 3 stand in the same state at turn 2 (returns 1.5 and 0: mean .75, sigma .75 sqrt 2).
    anchor = np.array([[7, 1, 2], [7, 5, 3], [7, 5, 4]])
    turn = gigpo(Group(SCORES, anchor=anchor), eps=0.0).turn
    np.testing.assert_allclose(turn[:, 0], [2, 0, -2], atol=1e-15)
    np.testing.assert_allclose(turn[:, 1], [1, np.sqrt(0.5), -1 - np.sqrt(0.5)], atol=1e-15)
    assert turn[:, 2].tolist() == [1.0, 0.0, -1.0]
    with pytest.raises(ValueError, match=r"Group\.anchor must be \(3, 3\), got none"):
        gigpo(Group(SCORES))
    with pytest.raises(ValueError, match=r"got shape \(3, 2\)"):
        gigpo(Group(SCORES, anchor=anchor[:, :2]))


def test_anchors_are_equal_where_the_same_was_sampled_before():
    made = anchors([[[1, 2], [3], [4]], [[1, 2], [4], [4]], [[1], [2, 3], [4]]])
    assert made.dtype == np.int64
    assert (made[:, 0] == made[0, 0]).all()
    assert made[0, 1] == made[1, 1] != made[2, 1]
    assert len(set(made[:, 2])) == 3
    assert anchors([[[1, 2], [3]]])[0, 1] == -4625865845518570693


def test_gdpo_by_hand():
    # pauc 3, 2, 1 (sigma 1): 1, 0, -1, three times; repeats -1, -1, 0 (sigma 1/sqrt 3): -1/3, -1/3, 2/3 over it, twice.
    ends = {"pauc": np.array([3.0, 2.0, 1.0]), "repeats": np.array([-1.0, -1.0, 0.0])}
    terms = {name: np.stack([np.zeros(3), end], -1) for name, end in ends.items()}
    weights = {"pauc": 3.0, "repeats": 2.0}
    group = Group(3 * terms["pauc"] + 2 * terms["repeats"], terms, weights)
    root = np.sqrt(3)
    np.testing.assert_allclose(
        gdpo(group, eps=0.0).total, [3 - 2 / 3 * root, -2 / 3 * root, -3 + 4 / 3 * root], atol=1e-15
    )
    with pytest.raises(ValueError, match="gdpo needs the terms"):
        gdpo(Group(SCORES))
    same = Group(group.scores, {name: np.zeros((3, 2)) for name in terms}, weights)
    assert not gdpo(same).live


@given(full_groups(), st.sampled_from(["drop", "floor", "keep"]))
@settings(deadline=None)
def test_discounts_join_the_rules(group, zero_spread):
    statistics = {"a_max": np.inf, "zero_spread": zero_spread}
    whole = return_to_go(group, gamma=1.0, **statistics).turn
    scale = max(1.0, np.abs(whole).max())
    np.testing.assert_allclose(whole, turnwise(group, alpha=1.0, **statistics).turn, atol=1e-12 * scale)
    assert np.array_equal(return_to_go(group, gamma=0.0, **statistics).turn, difference(group, **statistics).turn)
    outcome = grpo(group, **statistics).turn
    for rule in (mt_grpo, gigpo):
        assert np.array_equal(rule(group, turn_weight=0.0, **statistics).turn, outcome)


@pytest.mark.parametrize("rule", sorted(estimators()))
@given(group=full_groups((3,)))
@settings(deadline=None, max_examples=25)
def test_a_batch_is_its_groups_and_the_input_stays(rule, group):
    before = group.scores.copy()
    batch = estimators()[rule](group)
    assert np.array_equal(group.scores, before)
    for b in range(3):
        terms = {name: term[b] for name, term in group.terms.items()}
        alone = estimators()[rule](Group(group.scores[b], terms, group.weights, group.anchor[b]))
        for name in ("turn", "total", "live"):
            np.testing.assert_allclose(getattr(batch, name)[b], getattr(alone, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", sorted(estimators()))
@given(group=full_groups(), shift=st.sampled_from([0.0, 10.0]))
@settings(deadline=None, max_examples=25)
def test_rules_do_not_see_a_constant_and_order_is_kept(rule, group, shift):
    """A reward that is higher by the same for all teaches the same; so do the trajectories in another order."""
    credit = estimators()[rule](group)
    terms = {name: term + shift for name, term in group.terms.items()}
    moved = Group(group.scores + 5 * shift, terms, group.weights, group.anchor)
    np.testing.assert_allclose(estimators()[rule](moved).turn, credit.turn, atol=1e-9)
    back = {name: term[::-1] for name, term in group.terms.items()}
    turned = Group(group.scores[::-1], back, group.weights, group.anchor[::-1])
    np.testing.assert_allclose(estimators()[rule](turned).turn[::-1], credit.turn, atol=1e-12)


@pytest.mark.parametrize("rule", sorted(estimators()))
def test_a_group_without_spread_is_dropped(rule):
    scores = np.full((2, 3, 4), 0.1 + 0.2)
    scores[1, :, -1] = [0.3, 0.1 + 0.2, 0.3]
    scores[1, 2, 1] = 2.0
    terms = {"pauc": scores}
    credit = estimators()[rule](Group(scores, terms, {"pauc": 1.0}, np.zeros((2, 3, 3), int)))
    assert not credit.live.any()
    if rule not in ("dr_grpo", "rloo"):
        assert not credit.turn.any()
    assert not credit.total.any()


@pytest.mark.parametrize("rule", sorted(estimators()))
def test_results_come_back_as_the_scores_came(rule):
    estimate, anchor = estimators()[rule], np.zeros((3, 3), int)

    def credit(scores):
        return estimate(Group(scores, {"pauc": scores}, {"pauc": 1.0}, anchor))

    exact = credit(SCORES)
    assert exact.turn.dtype == np.float64
    narrow = credit(SCORES.astype(np.float32))
    assert narrow.turn.dtype == np.float32
    assert np.array_equal(narrow.turn, exact.turn.astype(np.float32))  # the statistics were float64
    for dtype, expected in ((torch.float64, exact.turn), (torch.float32, narrow.turn), (torch.bfloat16, narrow.turn)):
        result = credit(torch.tensor(SCORES, dtype=dtype, requires_grad=True))
        assert isinstance(result.turn, torch.Tensor)
        assert isinstance(result.live, torch.Tensor)
        assert result.turn.dtype == (dtype if dtype != torch.bfloat16 else torch.float32)
        assert np.array_equal(result.turn.numpy(), expected)
    assert credit(SCORES.tolist()).turn.tolist() == exact.turn.tolist()


@pytest.mark.parametrize("rule", sorted(estimators()))
def test_memory_stays_within_four_times_the_input(rule):
    scores = np.random.default_rng(0).normal(size=(5_000, 8, 129))
    scores[..., 0] = 0.0
    anchor = np.zeros((5_000, 8, 128), np.int64)
    tracemalloc.start()
    estimators()[rule](Group(scores, {"pauc": scores}, {"pauc": 1.0}, anchor))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert scores.nbytes + peak <= 4 * scores.nbytes


def test_figures_of_credit():
    figures = advantage_figures([np.array([[1.0, -5.0]]), np.array([5.0, 3.0])], a_max=5.0)
    assert figures == {"advantage_mean": 1.0, "advantage_std": np.sqrt(14.0), "advantage_clipped_share": 0.5}


def test_clipped_share_by_decile_of_the_spread():
    groups = [Group(SCORES * scale) for scale in range(20, 0, -1)]
    groups.append(Group(np.zeros((3, 4))))
    a_max = 1.2
    shares = clipped_by_spread(groups, [dr_grpo(group, a_max=a_max) for group in groups], a_max)
    # R - mean R is plus or minus the scale and 0: from 2 on, two of three trajectories are clipped.
    np.testing.assert_allclose(shares, [1 / 3, *[2 / 3] * 9], atol=1e-15)
    assert np.isnan(clipped_by_spread([], [], 5.0)).all()


def test_gdpo_refuses_a_term_that_is_not_finite():
    terms = {"pauc": np.stack([SCORES, SCORES])}
    terms["pauc"][1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="group 1: holds a value of pauc that is not finite"):
        gdpo(Group(np.stack([SCORES, SCORES]), terms, {"pauc": 1.0}))
