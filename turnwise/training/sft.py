"""Supervised warm-up: single-frame items teach what there is to see, then streamed demonstrations teach when to speak.

Cross-entropy over the action tokens of a step, weighted by `sft.loss`. Left out: VideoLLM-online's weight on frames alone;
here every turn ends in an action, and a wait is one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from turnwise.config import Sft
from turnwise.episodes import Demonstration
from turnwise.policy import FrameStore, Loaded, action_logprobs, learning_batch, trainable_parameters
from turnwise.progress import emit
from turnwise.protocols import Role
from turnwise.records import Trajectory
from turnwise.training.checkpoints import (
    Checkpoint,
    latest_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)

KEEP = 2
"""Checkpoints that are kept: a damaged one falls back to the one before."""


@dataclass(frozen=True)
class Step:
    """Figures of one optimizer step."""

    phase: str
    done: int
    """Steps taken so far, of both phases."""
    loss: float
    """Mean negative log-likelihood of the step's action tokens, nats."""


def warm_up(
    policy: Loaded,
    frames: FrameStore,
    captions: Sequence[Demonstration],
    demonstrations: Sequence[Demonstration],
    config: Sft,
    seed: int,
    state: Path | None = None,
) -> Iterator[Step]:
    """Train `policy` in place, one `Step` yielded after each optimizer step. Batches are drawn from (seed, phase, step).

    The vision tower learns from single-frame items alone, so that streams may share its features. `state` keeps
    checkpoints, from the newest of which a killed run goes on, on CPU to the same bytes.
    """
    phases = [
        ("captions", captions, config.caption_steps, config.caption_batch),
        ("streams", demonstrations, config.stream_steps, config.stream_batch),
    ]
    rates = [_warmup_cosine(step, steps) for _, _, steps, _ in phases for step in range(steps)]
    accelerator = Accelerator(cpu=policy.device.type == "cpu")
    parameters = trainable_parameters(policy, freeze_vision=False)
    adam = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay, betas=(0.9, 0.95))
    trained = {name for name, p in policy.model.named_parameters() if p.requires_grad}
    model, optimizer = accelerator.prepare(policy.model, adam)
    model.train()
    done, before = _resume(policy, adam, state), 0
    for number, (phase, items, steps, batch) in enumerate(phases):
        before += steps
        if done >= before:
            continue
        trainable_parameters(policy, freeze_vision=phase == "streams")
        frames.prefetch([item.episode for item in items])
        for step in range(steps - (before - done), steps):
            for group in adam.param_groups:
                group["lr"] = config.lr * rates[done]
            chosen = np.random.default_rng([seed, number, step]).choice(
                len(items), min(batch, len(items)), replace=False
            )
            loss = _step(policy, frames, accelerator, optimizer, [items[i] for i in chosen], config)
            done += 1
            if state and done % config.checkpoint_every == 0:
                weights = {name: tensor for name, tensor in policy.model.state_dict().items() if name in trained}
                save_checkpoint(state, Checkpoint(done, weights, optimizer_tensors(adam), {}), KEEP)
            yield Step(phase, done, loss)
    model.eval()


def _resume(policy: Loaded, adam: torch.optim.Optimizer, state: Path | None) -> int:
    """Put back what the newest checkpoint holds; returns the number of steps that it has behind it."""
    checkpoint = latest_checkpoint(state) if state else None
    if checkpoint is None:
        return 0
    policy.model.load_state_dict(checkpoint.weights, strict=False)
    restore_optimizer(adam, checkpoint.optimizer)
    emit("resume", step=checkpoint.update, state=str(state))
    return checkpoint.update


def _step(
    policy: Loaded,
    frames: FrameStore,
    accelerator: Accelerator,
    optimizer: Any,
    items: Sequence[Demonstration],
    config: Sft,
) -> float:
    """One optimizer step; gradients of the micro-batches add up to the whole batch's. Returns its loss."""
    items = sorted(items, key=lambda item: item.episode.turns)
    imitated = [imitate(policy, item) for item in items]
    whole = learning_batch(policy, frames, [(item.episode, one) for item, one in zip(items, imitated, strict=True)])
    weights = whole.mask / whole.mask.sum()
    if config.loss != "plain":
        roles = [[policy.writing.roles(action.tokens) for action in one.actions] for one in imitated]
        weights[whole.mask] *= torch.tensor(token_weights(roles, config), dtype=weights.dtype, device=weights.device)
    total = 0.0
    for start in range(0, len(items), config.micro_batch):
        part = slice(start, start + config.micro_batch)
        logp, _ = action_logprobs(policy, whole.select(part), temperature=1.0, with_grad=True)
        loss = -(weights[part] * logp).sum()
        accelerator.backward(loss)
        total += loss.item()
    accelerator.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return total


def imitate(policy: Loaded, demonstration: Demonstration) -> Trajectory:
    """The trajectory that does what the demonstration shows, with its thoughts where the protocol has them."""
    thoughts = demonstration.thoughts or [""] * len(demonstration.actions)
    shown = zip(demonstration.actions, thoughts, strict=True)
    actions = tuple(policy.encode_action(text, thought) for text, thought in shown)
    return Trajectory(demonstration.episode.id, 0, actions)


def token_weights(roles: Sequence[Sequence[Sequence[Role]]], config: Sft) -> list[float]:
    """The weight of each action token of a batch, from what it does: roles [B][T][K], weights in the same order.

    `streaming_eos` (VideoLLM-online): tokens of a wait weigh `silence_weight`, all others 1. `class_balanced`
    (StreamPro's CB-Stream, arXiv 2605.16381): with n_k turns of kind k in the batch and E_k = (1 - beta^n_k) / (1 - beta),
    tokens of a decision of kind k weigh (1 / E_k) / sum(1 / E_j) * 2 and the text `text_weight`; a batch with one kind
    alone has no balance to keep and weighs its decisions 1. The loss divides by the number of tokens all the same.
    """
    turns = [turn for trajectory in roles for turn in trajectory]
    weights = {"silence": config.silence_weight, "speak": 1.0, "text": 1.0}
    if config.loss == "class_balanced":
        silent, beta = sum("silence" in turn for turn in turns), config.class_beta
        spoken = sum("speak" in turn for turn in turns)
        rarity = [(1 - beta) / (1 - beta**n) if n else 0.0 for n in (silent, spoken)]
        shares = [2 * each / sum(rarity) if silent and spoken else 1.0 for each in rarity]
        weights = {"silence": shares[0], "speak": shares[1], "text": config.text_weight}
    return [weights[role] for turn in turns for role in turn]


def _warmup_cosine(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear over the first tenth, then a cosine down to a tenth."""
    warmup = max(1, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
