"""One update's optimizer steps. Token weights are computed once a step, so that micro-batching changes nothing."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from turnwise import config
from turnwise.episodes import Episode
from turnwise.objective import Loss, kl, log_ratio, policy_loss, to_tokens, token_weights
from turnwise.policy import Batch, FrameStore, Loaded, action_logprobs, learning_batch
from turnwise.records import Float, Trajectory

Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """A trajectory to learn from, with one advantage a turn [T]."""

    episode: Episode
    trajectory: Trajectory
    advantages: Float


@dataclass
class Learner:
    """The policy with its optimizer, as accelerate prepared them."""

    policy: Loaded
    frames: FrameStore
    accelerator: Accelerator
    optimizer: Any
    rl: config.Rl
    temperature: float
    skipped_in_row: int = 0
    """Optimizer steps left out, up to the last one, since the last whose loss and gradient were finite."""

    def update(self, rows: Sequence[Row], arm: config.Arm, order: np.random.Generator) -> Figures:
        """Take `rl.minibatches` optimizer steps on the rows, shuffled by `order`; return the update's figures.

        A step whose loss or gradient is not finite changes nothing; its figures are NaN where they have no value.
        """
        self.policy.model.train()
        parts = np.array_split(order.permutation(len(rows)), min(self.rl.minibatches, len(rows)))
        steps = [self._step([rows[i] for i in part], arm) for part in parts]
        self.policy.model.eval()
        figures = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
        figures["ratio_max"] = max(step["ratio_max"] for step in steps)
        figures["skipped_steps"] = int(sum(step["skipped_steps"] for step in steps))
        figures["logprob_gap"] = steps[0]["logprob_gap"]
        return figures

    def _step(self, rows: Sequence[Row], arm: config.Arm) -> Figures:
        """One optimizer step: gradients of the micro-batches add up to the whole minibatch's."""
        rows = sorted(rows, key=lambda row: row.episode.turns)
        whole = learning_batch(self.policy, self.frames, [(row.episode, row.trajectory) for row in rows])
        weights = token_weights(whole.mask, whole.turn_ids, arm.aggregation)
        values = token_advantages([row.advantages for row in rows], whole)
        figures: Figures = defaultdict(float)
        with self.frames.one_backward_pass():
            for start in range(0, len(rows), self.rl.micro_batch):
                part = slice(start, start + self.rl.micro_batch)
                batch = whole.select(part)
                logp, entropy = action_logprobs(self.policy, batch, temperature=self.temperature, with_grad=True)
                ratios = log_ratio(logp, batch.old_logprobs, batch.mask, batch.turn_ids, arm.ratio_level)
                clips = {"clip_low": arm.clip_low, "clip_high": arm.clip_high, "dual_clip": arm.dual_clip}
                loss = policy_loss(ratios, values[part], weights[part], **clips)
                self.accelerator.backward(loss.loss)
                _count(figures, batch, loss, logp.detach(), entropy, int(whole.mask.sum()))
        norm = self.accelerator.clip_grad_norm_(self.policy.model.parameters(), self.rl.max_grad_norm)
        finite = math.isfinite(norm) and math.isfinite(figures["loss"])
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.skipped_in_row = 0 if finite else self.skipped_in_row + 1
        return {**figures, "grad_norm": float(norm), "skipped_steps": float(not finite)}


def token_advantages(advantages: Sequence[Float], batch: Batch) -> Tensor:
    """Each token takes its turn's advantage: [B] of [T] becomes [B, K]."""
    turns = max(len(row) for row in advantages)
    table = torch.tensor(np.stack([np.pad(row, (0, turns - len(row))) for row in advantages]))
    return to_tokens(table.to(batch.mask.device), batch.mask, batch.turn_ids)


@torch.no_grad()
def _count(figures: Figures, batch: Batch, loss: Loss, logp: Tensor, entropy: Tensor, tokens: int) -> None:
    """Add a micro-batch's part of the step's figures: shares and means are over the step's action tokens."""
    gap = (logp - batch.old_logprobs)[batch.mask]
    figures["loss"] += float(loss.loss)
    for name, value in (("clip_low", loss.clip_low), ("clip_high", loss.clip_high), ("dual_clip", loss.dual)):
        figures[f"{name}_share"] += float(value) / tokens
    figures["approx_kl"] += float(kl(batch.old_logprobs, logp, "k3", batch.mask).sum()) / tokens
    figures["entropy"] += float(entropy[batch.mask].sum()) / tokens
    figures["ratio_max"] = max(figures["ratio_max"], float(gap.exp().max()))
    figures["logprob_gap"] = max(figures["logprob_gap"], float(gap.abs().max()))
