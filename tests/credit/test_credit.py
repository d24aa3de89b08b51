import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from turnwise.credit import alpha_at, estimators, grpo, turnwise
from turnwise.records import Group

SINGLE = st.just(())


@st.composite
def groups(draw, batch=SINGLE):
    """Prefix scores [..., G, T + 1] with one U[0] a group; many ties, as rewards have."""
    shape = (*draw(batch), draw(st.integers(2, 5)), draw(st.integers(2, 6)))
    values = st.one_of(st.sampled_from([0.0, 0.375, 1.0, -2.5]), st.floats(-8, 8, allow_subnormal=False))
    scores = draw(hnp.arrays(np.float64, shape, elements=values))
    scores[..., 0] = scores[..., :1, 0]
    return Group(scores=scores)


batches = st.sampled_from([(), (3,), (2, 2)])
policies = st.sampled_from(["drop", "floor", "keep"])


def test_grpo_by_hand():
    # R = 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14; the middle scores must not matter.
    scores = np.array([[0, 9, 1], [0, 9, 2], [0, 9, 3], [0, 9, 6]], float)
    for ddof, sigma in ((0, np.sqrt(14 / 4)), (1, np.sqrt(14 / 3))):
        credit = grpo(Group(scores=scores), eps=0.5, ddof=ddof)
        expected = np.array([-2, -1, 0, 3]) / (sigma + 0.5)
        np.testing.assert_allclose(credit.total, expected, rtol=1e-15)
        np.testing.assert_allclose(credit.turn, np.stack([expected, expected], 1), rtol=1e-15)


def test_a_good_trajectory_has_a_bad_turn():
    # The first earned 4.2 of its 5.0 in two turns; its group means are 4.0 in all and 3.0 after two turns.
    scores = np.array([[0.0, 2.0, 4.2, 5.0], [0.0, 1.0, 1.8, 3.0]])
    credit = turnwise(Group(scores=scores), alpha=1.0, eps=0.0)
    sigma = np.sqrt(2.0)
    assert credit.total[0] > 0
    np.testing.assert_allclose(credit.turn[0], [1.0 / sigma, 0.5 / sigma, (0.8 - 1.0) / sigma], rtol=1e-12)


@given(groups(batches), st.sampled_from([0, 1]), policies)
@settings(deadline=None)
def test_alpha_zero_is_grpo_bit_for_bit(group, ddof, zero_spread):
    ours = turnwise(group, alpha=0.0, ddof=ddof, zero_spread=zero_spread)
    theirs = grpo(group, ddof=ddof, zero_spread=zero_spread)
    for name in ("turn", "total", "live"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@given(groups(batches), st.floats(0, 1), policies)
@settings(deadline=None)
def test_turn_one_has_grpos_advantage(group, alpha, zero_spread):
    first = turnwise(group, alpha=alpha, zero_spread=zero_spread).turn[..., 0]
    assert np.array_equal(first, grpo(group, zero_spread=zero_spread).turn[..., 0])


@given(groups(batches))
@settings(deadline=None)
def test_what_was_earned_and_what_remained_make_the_reward(group):
    whole = np.broadcast_to((group.rewards - group.scores[..., 0])[..., None], group.earned.shape)
    np.testing.assert_allclose(group.earned + group.remaining, whole, atol=1e-12)
    np.testing.assert_allclose(np.diff(group.scores, axis=-1).sum(-1), whole[..., 0], atol=1e-12)


@given(groups(), st.floats(0, 1))
@settings(deadline=None)
def test_before_the_clip_it_interpolates_between_the_reward_and_what_remained(group, alpha):
    credit = turnwise(group, alpha=alpha, eps=1.0, a_max=np.inf)
    if not credit.live:
        return
    scale = group.rewards.std(ddof=1) + 1.0
    remaining = (group.remaining - group.remaining.mean(0)) / scale
    size = max(1.0, np.abs(group.scores).max())  # what is below 1e-12 of it is made 0
    blend = (1 - alpha) * credit.total[:, None] + alpha * remaining
    np.testing.assert_allclose(credit.turn, blend, rtol=1e-12, atol=2e-12 * size)
    np.testing.assert_allclose((credit.turn - credit.total[:, None]).sum(0), 0, atol=2e-12 * size * len(group.scores))


@given(groups(st.just((3,))), st.floats(0, 1), policies)
@settings(deadline=None)
def test_a_batch_is_its_groups(group, alpha, zero_spread):
    batch = turnwise(group, alpha=alpha, zero_spread=zero_spread)
    for b, scores in enumerate(group.scores):
        alone = turnwise(Group(scores=scores), alpha=alpha, zero_spread=zero_spread)
        np.testing.assert_allclose(batch.turn[b], alone.turn, rtol=1e-12, atol=1e-12)
        assert batch.live[b] == alone.live


@given(groups(batches), st.floats(0.1, 5))
@settings(deadline=None)
def test_advantages_are_clipped_and_the_global_one_is_not(group, a_max):
    credit = turnwise(group, a_max=a_max, zero_spread="keep")
    assert (np.abs(credit.turn) <= a_max).all()
    clipped = np.clip(credit.total, -a_max, a_max)
    assert np.array_equal(credit.turn[..., 0], clipped)


@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_zero_spread(noise):
    # Equal totals on different paths: eps alone would blow the difference of 1 up to the clip.
    scores = np.array([[0.0, 1.0, 0.3], [0.0, 0.0, 0.3 + noise], [0.0, 0.5, 0.1 + 0.2]])
    dropped = turnwise(Group(scores=scores))
    assert not dropped.live
    assert not dropped.turn.any()
    assert not dropped.total.any()
    floored = turnwise(Group(scores=scores), zero_spread="floor", eps=0.0)
    assert floored.live
    np.testing.assert_allclose(floored.turn, [[0, -0.5], [0, 0.5], [0, 0]], atol=1e-15)
    assert turnwise(Group(scores=scores), zero_spread="keep").turn.tolist() == [[0, -5], [0, 5], [0, 0]]
    with pytest.raises(ValueError, match="group 0: has zero spread"):
        turnwise(Group(scores=scores), zero_spread="keep", eps=0.0)


def test_a_large_mean_does_not_swallow_a_small_spread():
    scores = 1e8 + np.array([[0.0, 0.25], [0.0, 0.5]])
    np.testing.assert_allclose(grpo(Group(scores=scores), eps=0.0).total, [-np.sqrt(0.5), np.sqrt(0.5)], rtol=1e-12)


@pytest.mark.parametrize("rule", sorted(estimators()))
def test_refusals_name_the_group(rule):
    estimate = estimators()[rule]
    good = np.zeros((3, 2, 4))
    for index, value, reason in (
        ((2, 1, 2), np.nan, "finite"),
        ((1, 0, 3), np.inf, "finite"),
        ((2, 1, 0), 1.0, r"U\[0\]"),
    ):
        scores = good.copy()
        scores[index] = value
        with pytest.raises(ValueError, match=rf"group {index[0]}: .*{reason}"):
            estimate(Group(scores=scores))
    with pytest.raises(ValueError, match="group 0: needs at least 2 trajectories"):
        estimate(Group(scores=good[:, :1]))
    with pytest.raises(ValueError, match=r"group \(1, 2\)"):
        estimate(Group(scores=np.where(np.arange(6).reshape(2, 3, 1, 1) == 5, np.nan, np.zeros((2, 3, 2, 4)))))
    with pytest.raises(ValueError, match="shape"):
        estimate(Group(scores=np.zeros(4)))
    rows = [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    with pytest.raises(ValueError, match=r"group 1: its trajectories have \[1, 2\] turns"):
        estimate(Group(scores=[rows, [rows[0], [0.0, 1.0]]]))
    with pytest.raises(ValueError, match="call once for each shape"):
        estimate(Group(scores=[rows, [[0.0, 1.0], [0.0, 1.0]]]))


def test_alpha_rises_over_the_first_tenth():
    assert [alpha_at(u, 40, 0.1, 0.5) for u in (1, 2, 3, 5, 40)] == [0.0, 0.125, 0.25, 0.5, 0.5]
    assert alpha_at(8, 100, 0.07, 1.0) == 1.0  # 0.07 * 100 > 7
    assert [alpha_at(u, 3, 0.1, 1.0) for u in (1, 2)] == [0.0, 1.0]


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(2, 9),
    scale=st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_a_decision_with_nothing_left_to_choose_has_an_advantage_of_exactly_zero(seed, size, scale):
    rng = np.random.default_rng(seed)
    scores = np.cumsum(rng.normal(size=(size, 9)) * scale, axis=1)
    scores[:, 0] = 0.375
    remaining = rng.normal() * scale
    scores[:, 6:] = scores[:, 5:6] + remaining
    credit = turnwise(Group(scores=scores), alpha=1.0)
    assert np.all(credit.turn[:, 5:] == 0)
    assert np.array_equal(turnwise(Group(scores=scores), alpha=0.0).turn, grpo(Group(scores=scores)).turn)
