"""Loss and gradient by every parameter, TRL's `_compute_loss` against turnwise.objective, in float64."""

import math

import pytest
import torch
from trl.trainer.utils import split_tensor_dict
from trl_side import (
    ACTIONS,
    LONGEST,
    action_logprobs,
    assert_equal,
    drift,
    of_actions,
    rows,
    scored,
    trainer_for,
    trl_clips,
    trl_loss,
    turn_ids,
    turnwise_loss,
    with_gradient,
)

from turnwise.objective import kl, log_ratio, token_weights

# TRL's loss_type: our aggregation, and TRL's loss over ours (its dr_grpo also divides by a constant length).
MODES = {
    "grpo": ("seq-mean-token-mean", 1.0),
    "bnpo": ("token-mean", 1.0),
    "dapo": ("token-mean", 1.0),
    "dr_grpo": ("seq-mean-token-sum", 1.0 / LONGEST),
    "luspo": ("seq-mean-token-sum", 1.0),
}
REWARDS = [[0.5, 2.0, -1.0, 0.25, 3.0, 0.0, 1.0, -0.5]]
CLIPS = {"clip_low": 0.1, "clip_high": 0.15, "dual_clip": 1.25}
BATCH, MOST_TURNS = rows(), max(map(len, ACTIONS))
TURNS = turn_ids(BATCH)


def rolled_out(folders, loss_type, level="token", clips=CLIPS, **settings):
    """TRL's trainer, and what its loss takes."""
    settings |= {"loss_type": loss_type, "importance_sampling_level": level, **trl_clips(clips)}
    trainer = trainer_for(folders["opt"], BATCH, REWARDS, **settings)
    return trainer, scored(trainer, BATCH)


def own(logp, inputs, advantages, loss_type, level="token", clips=CLIPS):
    """Loss of turnwise.objective on what TRL's loss takes, but for log-probabilities and advantages [B, T]."""
    old, aggregation = of_actions(inputs["old_per_token_logps"], BATCH), MODES[loss_type][0]
    return turnwise_loss(logp, old, advantages, TURNS, aggregation=aggregation, level=level, clips=clips)


def of_trajectories(inputs):
    """[B, T] TRL's advantage of a trajectory, for each of its turns."""
    return inputs["advantages"][:, None].expand(-1, MOST_TURNS)


@pytest.mark.parametrize("dual_clip", [math.inf, CLIPS["dual_clip"]])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", MODES)
def test_loss_gradient_and_clip_shares(model_folders, loss_type, level, dual_clip):
    clips = CLIPS | {"dual_clip": dual_clip}
    trainer, inputs = rolled_out(model_folders, loss_type, level, clips)
    for scale in (0.0, 0.02, 0.1):
        drift(trainer.model, scale)
        logp = action_logprobs(trainer.model, BATCH)
        loss = own(logp, inputs, of_trajectories(inputs), loss_type, level, clips)
        assert_equal(with_gradient(trainer.model, MODES[loss_type][1] * loss.loss), trl_loss(trainer, inputs))
        assert level == "sequence" or clip_shares(loss) == pytest.approx(trl_clip_shares(trainer), abs=1e-6)
    assert min(loss.clip_low, loss.clip_high) > 0
    assert (loss.dual > 0) == math.isfinite(dual_clip)


def clip_shares(loss):
    return [(count / (TURNS >= 0).sum()).item() for count in (loss.clip_low, loss.clip_high)]


def trl_clip_shares(trainer):
    return [trainer._metrics["train"][f"clip_ratio/{side}_mean"][-1] for side in ("low", "high")]


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", MODES)
def test_advantages_that_differ_by_turn(model_folders, loss_type, level):
    """TRL's loss also takes advantages [B, C], one a token: so it can be given each turn's own."""
    trainer, inputs = rolled_out(model_folders, loss_type, level)
    generator = torch.Generator().manual_seed(2)
    advantages = torch.randn(len(BATCH), MOST_TURNS, generator=generator, dtype=torch.float64)
    inputs["advantages"] = torch.zeros(inputs["completion_ids"].shape, dtype=torch.float64)
    for b, row in enumerate(BATCH):
        inputs["advantages"][b, : len(row.turns)] = advantages[b, row.turns]
    drift(trainer.model, 0.1)
    loss = own(action_logprobs(trainer.model, BATCH), inputs, advantages, loss_type, level)
    assert_equal(with_gradient(trainer.model, MODES[loss_type][1] * loss.loss), trl_loss(trainer, inputs))
    assert min(loss.clip_low, loss.clip_high, loss.dual) > 0


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", MODES)
def test_k3_to_a_reference(model_folders, loss_type, level, corrected):
    """TRL adds beta k3 within its mean, times the ratio where `use_bias_correction_kl`; the reference is its own."""
    beta, (aggregation, factor), mask = 0.3, MODES[loss_type], TURNS >= 0
    trainer, inputs = rolled_out(model_folders, loss_type, level, beta=beta, use_bias_correction_kl=corrected)
    drift(trainer.model, 0.1)
    logp = action_logprobs(trainer.model, BATCH)
    old, ref = (of_actions(inputs[name], BATCH) for name in ("old_per_token_logps", "ref_per_token_logps"))
    penalty = kl(logp, ref, "k3", mask)
    assert penalty.max() > 0.1
    if corrected:
        penalty = penalty * log_ratio(logp, old, mask, TURNS, level).exp()
    loss = own(logp, inputs, of_trajectories(inputs), loss_type, level).loss
    loss = loss + beta * (token_weights(mask, TURNS, aggregation) * penalty).sum()
    assert_equal(with_gradient(trainer.model, factor * loss), trl_loss(trainer, inputs))


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo", "luspo"])
def test_accumulated_micro_batches(model_folders, loss_type):
    """TRL's losses of two accumulated micro-batches add up to ours of the whole step."""
    accumulation = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    trainer, inputs = rolled_out(model_folders, loss_type, **accumulation)
    drift(trainer.model, 0.1)
    loss = own(action_logprobs(trainer.model, BATCH), inputs, of_trajectories(inputs), loss_type).loss
    parts = [trl_loss(trainer, part) for part in split_tensor_dict(inputs, 2)]
    theirs = tuple(sum(numbers) for numbers in zip(*parts, strict=True))
    assert_equal(with_gradient(trainer.model, MODES[loss_type][1] * loss), theirs)
