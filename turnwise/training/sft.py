"""Supervised warm-up: single-frame items teach what there is to see, then streamed demonstrations teach when to speak.

Plain cross-entropy, averaged over the action tokens of a step; other losses for silence are a protocol's business.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from turnwise.config import Sft
from turnwise.episodes import Demonstration
from turnwise.policy import FrameStore, Loaded, action_logprobs, learning_batch, trainable_parameters
from turnwise.records import Trajectory


@dataclass(frozen=True)
class Step:
    """Figures of one optimizer step."""

    phase: str
    step: int
    loss: float
    """Mean negative log-likelihood of the step's action tokens, nats."""


def warm_up(
    policy: Loaded,
    frames: FrameStore,
    captions: Sequence[Demonstration],
    demonstrations: Sequence[Demonstration],
    config: Sft,
    seed: int,
) -> Iterator[Step]:
    """Train `policy` in place, one `Step` yielded after each optimizer step. Batches are drawn from (seed, phase, step).

    The vision tower learns from single-frame items alone, so that streams may share its features.
    """
    phases = [
        ("captions", captions, config.caption_steps, config.caption_batch),
        ("streams", demonstrations, config.stream_steps, config.stream_batch),
    ]
    rates = [_warmup_cosine(step, steps) for _, _, steps, _ in phases for step in range(steps)]
    accelerator = Accelerator(cpu=policy.device.type == "cpu")
    parameters = trainable_parameters(policy, freeze_vision=False)
    adam = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: rates[min(step, len(rates) - 1)])
    model, optimizer, scheduler = accelerator.prepare(policy.model, adam, schedule)
    model.train()
    for number, (phase, items, steps, batch) in enumerate(phases):
        trainable_parameters(policy, freeze_vision=phase == "streams")
        frames.prefetch([item.episode for item in items])
        for step in range(steps):
            chosen = np.random.default_rng([seed, number, step]).choice(
                len(items), min(batch, len(items)), replace=False
            )
            loss = _step(policy, frames, accelerator, optimizer, [items[i] for i in chosen])
            scheduler.step()
            yield Step(phase, step + 1, loss)
    model.eval()


def _step(
    policy: Loaded, frames: FrameStore, accelerator: Accelerator, optimizer: Any, items: Sequence[Demonstration]
) -> float:
    batch = learning_batch(policy, frames, [(item.episode, imitate(policy, item)) for item in items])
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=True)
    loss = -torch.where(batch.mask, logp, 0.0).sum() / batch.mask.sum()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def imitate(policy: Loaded, demonstration: Demonstration) -> Trajectory:
    """The trajectory that does what the demonstration shows."""
    actions = tuple(policy.encode_action(text) for text in demonstration.actions)
    return Trajectory(demonstration.episode.id, 0, actions)


def _warmup_cosine(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear over the first tenth, then a cosine down to a tenth."""
    warmup = max(1, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
