import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.objective import kl, log_ratio, policy_loss, to_tokens, token_shaping, token_weights

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "turn-mean", "turn-sum-norm")
LEVELS = ("token", "turn", "sequence")
CLIPS = {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 3.0}


def packed(rows):
    """Mask and turn ids [B, L] of rows given as token counts of their turns, with a stretch of padding in the middle."""
    length = max(sum(row) for row in rows) + 2
    mask, turn_ids = torch.zeros(len(rows), length, dtype=torch.bool), torch.full((len(rows), length), -1)
    for b, row in enumerate(rows):
        ids = torch.repeat_interleave(torch.arange(len(row)), torch.tensor(row))
        at = torch.arange(len(ids)) + 2 * (torch.arange(len(ids)) >= 1)
        mask[b, at], turn_ids[b, at] = True, ids
    return mask, turn_ids


@st.composite
def batches(draw):
    """mask, turn_ids, logp, old_logp, advantages of a small batch, NaN and infinity outside the mask."""
    rows = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=2, max_size=5))
    mask, turn_ids = packed(rows)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logp, old, advantages = (torch.tensor(rng.normal(0, 1, mask.shape)) for _ in range(3))
    garbage = torch.tensor(rng.choice([np.nan, np.inf, -np.inf, 1e300], mask.shape))
    return mask, turn_ids, *(torch.where(mask, x, garbage) for x in (logp, old, advantages))


def gradient(mask, turn_ids, logp, old, advantages, mode, level, splits=((0, None),)):
    """Loss and gradient by logp, summed over micro-batches of rows."""
    logp = logp.clone().requires_grad_()
    weights = token_weights(mask, turn_ids, mode)
    total = 0.0
    for start, end in splits:
        part = slice(start, end)
        ratio = log_ratio(logp[part], old[part], mask[part], turn_ids[part], level)
        loss = policy_loss(ratio, advantages[part], weights[part], **CLIPS).loss
        loss.backward()
        total += loss.item()
    return total, logp.grad


def test_a_long_reply_and_three_waits():
    mask, turn_ids = packed([[300, 4, 4, 4]])
    for mode, reply in (("token-mean", 300 / 312), ("seq-mean-token-mean", 300 / 312), ("turn-mean", 0.25)):
        weights = token_weights(mask, turn_ids, mode)
        shares = [weights[turn_ids == t].sum().item() for t in range(4)]
        assert shares == pytest.approx([reply, *[(1 - reply) / 3] * 3], abs=1e-12)
    assert round(100 * 300 / 312, 1) == 96.2


def test_weights_by_hand():
    mask, turn_ids = packed([[2, 1], [1], [3]])
    mask[2] = False  # a row without tokens still counts as a row
    at = lambda mode: [w[m].tolist() for w, m in zip(token_weights(mask, turn_ids, mode), mask, strict=True)]  # noqa: E731
    assert at("token-mean") == [[1 / 4] * 3, [1 / 4], []]
    assert at("seq-mean-token-mean") == [[1 / 9] * 3, [1 / 3], []]
    assert at("seq-mean-token-sum") == [[1 / 3] * 3, [1 / 3], []]
    assert at("turn-mean") == [[1 / 12, 1 / 12, 1 / 6], [1 / 3], []]
    assert not token_weights(mask, turn_ids, "turn-mean")[~mask].any()
    with pytest.raises(ValueError, match="is not one of token-mean, seq-mean-token-mean"):
        token_weights(mask, turn_ids, "mean")


@given(batches())
@settings(deadline=None)
def test_mean_weights_add_up_to_one(batch):
    mask, turn_ids, *_ = batch
    for mode in ("token-mean", "seq-mean-token-mean", "turn-mean"):
        assert token_weights(mask, turn_ids, mode).sum().item() == pytest.approx(1.0, abs=1e-12)


@given(batches(), st.sampled_from(MODES), st.sampled_from(LEVELS), st.data())
@settings(deadline=None)
def test_any_split_gives_the_same_gradient(batch, mode, level, data):
    rows = len(batch[0])
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, rows - 1)))), rows]
    loss, grad = gradient(*batch, mode, level)
    split_loss, split_grad = gradient(*batch, mode, level, splits=list(pairwise(cuts)))
    assert split_loss == pytest.approx(loss, abs=1e-12)
    torch.testing.assert_close(split_grad, grad, rtol=0, atol=1e-12)


@given(batches(), st.sampled_from(MODES), st.sampled_from(LEVELS))
@settings(deadline=None)
def test_masked_positions_change_nothing(batch, mode, level):
    mask, turn_ids, *values = batch
    loss, grad = gradient(*batch, mode, level)
    clean = gradient(mask, turn_ids.clamp(min=0), *(torch.where(mask, x, 0.0) for x in values), mode, level)
    assert loss == clean[0]
    assert torch.equal(grad, clean[1])
    assert math.isfinite(loss)
    assert not grad[~mask].any()


@given(batches(), st.sampled_from(LEVELS))
@settings(deadline=None)
def test_log_ratios_are_means_over_their_span(batch, level):
    mask, turn_ids, logp, old, _ = batch
    ratio = log_ratio(logp, old, mask, turn_ids, level)
    assert not ratio[~mask].any()
    for b, k in mask.nonzero().tolist():
        span = mask[b] & {"token": torch.arange(mask.shape[1]) == k, "turn": turn_ids[b] == turn_ids[b, k]}.get(
            level, mask[b]
        )
        assert ratio[b, k].item() == pytest.approx((logp - old)[b, span].mean().item(), abs=1e-12)


def test_a_sequence_ratio_passes_its_gradient_to_every_token():
    logp = torch.tensor([[-1.0, -2.0, -3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    mask, turn_ids = torch.tensor([[1, 1, 1, 0]]), torch.tensor([[0, 0, 1, -1]])
    log_ratio(logp, torch.zeros_like(logp), mask, turn_ids, "turn")[0, 0].backward()
    assert logp.grad.tolist() == [[0.5, 0.5, 0.0, 0.0]]


@given(st.floats(-3, 3), st.floats(-2, 2))
@settings(deadline=None)
def test_the_loss_is_the_textbook_one(x, advantage):
    ratio = math.exp(x)
    clipped = min(max(ratio, 0.8), 1.3)
    expected = max(-advantage * ratio, -advantage * clipped)
    if advantage < 0:
        expected = min(expected, -advantage * 3.0)
    tensors = (torch.tensor([[v]], dtype=torch.float64) for v in (x, advantage, 1.0))
    assert policy_loss(*tensors, **CLIPS).loss.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope", "clip"),
    [
        (1.0, 2.0, -2.0, None),
        (1.0, -2.0, 2.0, None),
        (1.25, 2.0, -2.5, None),
        (1.35, 2.0, 0.0, "clip_high"),
        (0.5, 2.0, -1.0, None),
        (0.7, -2.0, 0.0, "clip_low"),
        (2.5, -2.0, 5.0, None),
        (3.5, -2.0, 0.0, "dual"),
        (1e40, 1.0, 0.0, "clip_high"),
        (1e40, -1.0, 0.0, "dual"),
    ],
)
def test_gradients_of_the_clips_and_tokens_they_hold(ratio, advantage, slope, clip):
    x = torch.tensor([[math.log(ratio), 0.0, math.nan]], requires_grad=True)  # float32, where 1e40 overflows
    loss = policy_loss(x, torch.tensor([[advantage, 0.0, math.inf]]), torch.tensor([[0.25, 0.75, 0.0]]), **CLIPS)
    loss.loss.backward()
    assert math.isfinite(loss.loss.item())
    assert x.grad[0].tolist() == pytest.approx([0.25 * slope, 0.0, 0.0], rel=1e-6)
    held = {name: getattr(loss, name).item() for name in ("clip_low", "clip_high", "dual")}
    assert held == {name: 1 if name == clip else 0 for name in held}


@given(batches(), st.sampled_from(MODES), st.sampled_from(LEVELS))
@settings(deadline=None, max_examples=25)
def test_numpy_arrays_give_the_same(batch, mode, level):
    def loss(mask, turn_ids, logp, old, advantages):
        ratio = log_ratio(logp, old, mask, turn_ids, level)
        shaped = token_shaping(advantages, logp, mask, weight=0.5)
        value = policy_loss(ratio, shaped, token_weights(mask, turn_ids, mode), **CLIPS).loss
        return value + kl(logp, old, "k3", mask).sum() + to_tokens(shaped[:, :4], mask, turn_ids).sum()

    assert torch.equal(loss(*batch), loss(*(part.numpy() for part in batch)))


def test_turn_sum_norm_by_hand():
    # 10 tokens in 5 turns: 2 a turn. Rows have 2 and 3 turns, so a token of them weighs 1 / (2 rows · 2 · 2) and 1 / 12.
    mask, turn_ids = packed([[4, 1], [1, 1, 3]])
    weights = token_weights(mask, turn_ids, "turn-sum-norm")
    assert weights[0][mask[0]].tolist() == pytest.approx([1 / 8] * 5, abs=1e-15)
    assert weights[1][mask[1]].tolist() == pytest.approx([1 / 12] * 5, abs=1e-15)


def test_token_shaping_adds_to_the_tokens_of_any_rule():
    mask, turn_ids = packed([[2, 1]])
    tokens = to_tokens(torch.tensor([[1.0, -2.0]]), mask, turn_ids)
    shaping = torch.where(mask, 0.5, math.nan)
    shaped = token_shaping(tokens, shaping, mask, weight=-2.0)
    assert shaped[mask].tolist() == [0.0, 0.0, -3.0]
    assert not shaped[~mask].any()


def test_infinite_dual_clip_is_none():
    loss = policy_loss(*torch.tensor([[[5.0]], [[-1.0]], [[1.0]]]), clip_low=1.0, clip_high=0.2, dual_clip=math.inf)
    assert loss.loss.item() == pytest.approx(math.exp(5.0))


def test_advantages_of_turns_reach_their_tokens():
    mask, turn_ids = packed([[2, 1], [1, 1]])
    tokens = to_tokens(torch.tensor([[1.0, -2.0], [3.0, 0.5]]), mask, turn_ids)
    assert [row[m].tolist() for row, m in zip(tokens, mask, strict=True)] == [[1.0, 1.0, -2.0], [3.0, 0.5]]
    assert not tokens[~mask].any()


def test_kl_estimates():
    logp = torch.tensor([[-1.0, math.nan]], dtype=torch.float64, requires_grad=True)
    ref, mask = torch.tensor([[-1.5, 0.0]], dtype=torch.float64), torch.tensor([[True, False]])
    for kind, value in (("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) - 0.5)):
        estimate = kl(logp, ref, kind, mask)
        assert estimate[0].tolist() == pytest.approx([value, 0.0], abs=1e-15)
        assert math.isfinite(torch.autograd.grad(estimate.sum(), logp)[0][0, 0].item())
    assert kl(logp, ref, "k1").isnan()[0, 1]
