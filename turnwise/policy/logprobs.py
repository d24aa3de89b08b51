"""What learning needs of a policy: the log-probs of the action tokens of whole trajectories, with gradient.

One row is one trajectory, its conversation rebuilt from token ids. Logits are made only where an action token is
predicted, so memory grows with what was said, not with what was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.policy.conversation import GIVEN, Conversation, Rows, Script, stack
from turnwise.policy.forward import hidden_states, log_probabilities
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded
from turnwise.records import Trajectory


@dataclass(frozen=True)
class Batch:
    """B trajectories to learn from; K is the number of action tokens of the one that has most."""

    predicts: Tensor
    """[B, K] index in the row of the token before each action token, whose hidden state predicts it."""
    tokens: Tensor
    """[B, K] action tokens."""
    mask: Tensor
    """[B, K] bool: there is such a token."""
    turn_ids: Tensor
    """[B, K] 0-based turn of each action token."""
    old_logprobs: Tensor
    """[B, K] float32, as sampled."""
    conversations: tuple[Conversation, ...]
    """[B] whole."""
    frames: FrameStore
    """Where the visual features come from."""

    @cached_property
    def rows(self) -> Rows:
        """The conversations side by side, made on first use: a batch that is only cut into parts needs none."""
        return stack([c.since(0) for c in self.conversations], self.frames.policy)

    def select(self, rows: slice) -> "Batch":
        """The trajectories `rows` alone, no wider than they need; K stays, so weights [B, K] can be cut alike."""
        return Batch(
            self.predicts[rows],
            self.tokens[rows],
            self.mask[rows],
            self.turn_ids[rows],
            self.old_logprobs[rows],
            self.conversations[rows],
            self.frames,
        )


def learning_batch(policy: Loaded, frames: FrameStore, pairs: Sequence[tuple[Episode, Trajectory]]) -> Batch:
    """Lay trajectories out for learning. Raises UserError for a bad clip."""
    episodes = {episode.id: episode for episode, _ in pairs}
    frames.prefetch(episodes.values())
    scripts = {name: Script(policy, frames, episode) for name, episode in episodes.items()}
    conversations = tuple(_retold(policy, scripts[episode.id], trajectory) for episode, trajectory in pairs)
    acted = [np.flatnonzero(np.array(c.turn_ids) != GIVEN) for c in conversations]
    shape = (len(pairs), max(map(len, acted)))
    predicts, tokens, turns = (np.zeros(shape, np.int64) for _ in range(3))
    mask, old = np.zeros(shape, bool), np.zeros(shape, np.float32)
    for b, (c, at, (_, trajectory)) in enumerate(zip(conversations, acted, pairs, strict=True)):
        n = len(at)
        predicts[b, :n], tokens[b, :n], turns[b, :n] = at - 1, np.array(c.ids)[at], np.array(c.turn_ids)[at]
        mask[b, :n], old[b, :n] = True, [value for action in trajectory.actions for value in action.logprobs]
    on = [torch.from_numpy(a).to(policy.device) for a in (predicts, tokens, mask, turns, old)]
    return Batch(on[0], on[1], on[2], on[3], on[4], conversations, frames)


def _retold(policy: Loaded, script: Script, trajectory: Trajectory) -> Conversation:
    conversation = Conversation(policy, script)
    for turn, action in enumerate(trajectory.actions):
        conversation.show(turn)
        conversation.act(turn, action.tokens)
    return conversation


def action_logprobs(policy: Loaded, batch: Batch, *, temperature: float, with_grad: bool) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies [B, K] float32 of the action tokens, after temperature and bans; 0 where there is none.

    Entropy (nats, over the allowed tokens) is a metric and carries no gradient.
    """
    with torch.set_grad_enabled(with_grad):
        features = batch.frames.features(batch.rows.frames, with_grad=with_grad)
        hidden = hidden_states(policy, batch.rows, features)
        row, _ = torch.nonzero(batch.mask, as_tuple=True)
        scores = log_probabilities(policy, hidden[row, batch.predicts[batch.mask]], temperature)
        picked = scores.gather(1, batch.tokens[batch.mask][:, None])[:, 0]
        empty = torch.zeros_like(batch.old_logprobs)
        entropy = -(scores.detach().exp() * scores.detach()).sum(-1)
        return empty.masked_scatter(batch.mask, picked), empty.masked_scatter(batch.mask, entropy)
