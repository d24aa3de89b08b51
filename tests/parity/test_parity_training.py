"""Two updates of `GRPOTrainer.train()`, nothing of TRL replaced, against credit and objective with plain SGD (float32)."""

import math

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector
from transformers import AutoModelForCausalLM
from trl_side import GROUP, action_logprobs, rows, trainer_for, trl_clips, turn_ids, turnwise_loss

from turnwise.credit import grpo
from turnwise.records import Group

REWARDS = [0.5, 2.0, -1.0, 0.25, 3.0, 0.0, 1.0, -0.5]
CLIPS = {"clip_low": 0.1, "clip_high": 0.15, "dual_clip": math.inf}
RATE, UPDATES = 0.5, 2


def test_two_updates(model_folders):
    """The second update, on the same roll-outs, is off-policy and clipped."""
    accumulation = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    plain = {"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    trainer = trainer_for(
        model_folders["qwen2"],
        rows(),
        [REWARDS],
        torch.float32,
        loss_type="grpo",
        max_steps=UPDATES,
        **accumulation,
        **plain,
        **trl_clips(CLIPS),
    )
    start = parameters_to_vector(trainer.model.parameters()).detach().clone()
    trainer.train()
    theirs = parameters_to_vector(trainer.model.parameters()).detach() - start
    ours = own_updates(model_folders["qwen2"]) - start
    assert theirs.abs().max() > 0.05
    assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-5 * theirs.abs().max().item())


def own_updates(folder):
    """All parameters after the updates."""
    batch, model = rows(), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    turns = turn_ids(batch)
    length = int(turns.max()) + 1
    scores = np.zeros((len(REWARDS) // GROUP, GROUP, length + 1), np.float32)
    scores[..., -1] = np.reshape(REWARDS, (-1, GROUP))
    advantages = torch.tensor(grpo(Group(scores), eps=1e-4, a_max=math.inf).turn).reshape(-1, length)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    old = action_logprobs(model, batch).detach()
    for _ in range(UPDATES):
        logp = action_logprobs(model, batch)
        loss = turnwise_loss(
            logp, old, advantages, turns, aggregation="seq-mean-token-mean", level="token", clips=CLIPS
        )
        optimizer.zero_grad()
        loss.loss.backward()
        optimizer.step()
    assert min(loss.clip_low, loss.clip_high) > 0
    return parameters_to_vector(model.parameters()).detach()
