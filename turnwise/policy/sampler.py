"""Roll-out in process: all trajectories in lock-step over the grid, each turn appended to what the decoder remembers."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.policy.cache import RaggedCache
from turnwise.policy.conversation import Conversation, Piece, Rows, Script, stack
from turnwise.policy.forward import hidden_states, log_probabilities
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded
from turnwise.records import Action, Trajectory

OnTurn = Callable[[int, Sequence[Action | None]], None]
"""Called after each turn with its 0-based number and every trajectory's action (None where its grid has ended)."""


class Sampler(Protocol):
    """What rolls episodes out."""

    def rollout(
        self,
        episodes: Sequence[Episode],
        group_size: int,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        on_turn: OnTurn | None = None,
    ) -> list[Trajectory]:
        """Sample `group_size` trajectories of each episode: episode-major, index 0..G-1."""


class Sampling(NamedTuple):
    """How a token is drawn; log-probs are recorded after temperature and bans, before top-k and top-p."""

    temperature: float
    """0 takes the likeliest token."""
    top_k: int
    """Keep the k likeliest tokens; 0 keeps all."""
    top_p: float
    """Keep the likeliest tokens up to this mass."""


class _Row:
    """One trajectory on its way."""

    def __init__(self, policy: Loaded, script: Script, episode: Episode, index: int, uniforms: Tensor):
        self.conversation, self.episode, self.index = Conversation(policy, script), episode, index
        self.uniforms, self.read = uniforms, 0
        self.actions: list[Action] = []


class HfSampler:
    """Rolls out with the loaded model. The past is never read again: a turn costs its own tokens."""

    def __init__(self, policy: Loaded, frames: FrameStore, *, max_action_tokens: int, max_context: int):
        self.policy, self.frames = policy, frames
        self.max_action_tokens, self.max_context = max_action_tokens, max_context

    @torch.no_grad()
    def rollout(
        self,
        episodes: Sequence[Episode],
        group_size: int,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        on_turn: OnTurn | None = None,
    ) -> list[Trajectory]:
        """Sample `group_size` trajectories of each episode: episode-major, index 0..G-1; temperature 0 is greedy.

        A trajectory depends on (seed, episode, index) and the weights alone, not on its neighbours, up to floating
        point: the shape of the batch changes the last bits of log-probs, which may rarely turn a draw.
        Raises UserError for an episode whose longest possible conversation exceeds `max_context`.
        """
        rows = self._rows(episodes, group_size, seed)
        live, cache = rows, RaggedCache(len(rows), self.policy.device)
        for turn in range(max(episode.turns for episode in episodes)):
            stay = [i for i, row in enumerate(live) if turn < row.episode.turns]
            if len(stay) < len(live):
                live = [live[i] for i in stay]
                cache.keep(torch.tensor(stay, device=self.policy.device))
            self._take_turn(live, turn, cache, Sampling(temperature, top_k, top_p))
            if on_turn:
                on_turn(turn, [row.actions[turn] if turn < row.episode.turns else None for row in rows])
        return [Trajectory(row.episode.id, row.index, tuple(row.actions)) for row in rows]

    def _rows(self, episodes: Sequence[Episode], group_size: int, seed: int) -> list[_Row]:
        self.frames.prefetch(episodes)
        rows = []
        for episode in episodes:
            script = script_within(self.policy, self.frames, episode, self.max_action_tokens, self.max_context)
            for index in range(group_size):
                uniforms = _uniforms((episode.turns, self.max_action_tokens), seed, episode.id, index)
                rows.append(_Row(self.policy, script, episode, index, uniforms.to(self.policy.device)))
        return rows

    def _take_turn(self, rows: list[_Row], turn: int, cache: RaggedCache, sampling: Sampling) -> None:
        for row in rows:
            row.conversation.show(turn)
        hidden = self._read([row.conversation.since(row.read) for row in rows], cache)
        uniforms = torch.stack([row.uniforms[turn] for row in rows])
        following = torch.tensor([row.conversation.following for row in rows], device=hidden.device)
        actions = self._speak(hidden, following, uniforms, cache, sampling)
        for row, (tokens, logprobs) in zip(rows, actions, strict=True):
            row.read = len(row.conversation.ids) + len(tokens) - 1
            row.conversation.act(turn, tokens)
            row.actions.append(self.policy.action(tokens, logprobs))

    def _read(self, pieces: list[Piece], cache: RaggedCache) -> Tensor:
        """Append new tokens of all rows; returns the hidden states [B, D] of their last ones."""
        rows = stack(pieces, self.policy)
        every = torch.arange(len(pieces), device=self.policy.device)
        mask = cache.open(every, rows.ids.shape[1], self.policy.model.dtype)
        hidden = hidden_states(self.policy, rows, self.frames.features(rows.frames), mask=mask, cache=cache)
        cache.advance(rows.lengths)
        return hidden[every, rows.lengths - 1]

    def _speak(
        self, hidden: Tensor, following: Tensor, uniforms: Tensor, cache: RaggedCache, sampling: Sampling
    ) -> list[tuple[list[int], list[float]]]:
        """Sample actions from the hidden states [B, D] of the headers: tokens and log-probs of each row.

        The last token of an action is not read here but with the next turn.
        """
        spoken: list[tuple[list[int], list[float]]] = [([], []) for _ in range(len(hidden))]
        speaking = torch.arange(len(hidden), device=hidden.device)
        for k in range(self.max_action_tokens):
            logp = log_probabilities(self.policy, hidden, sampling.temperature)
            chosen = choose(logp, uniforms[speaking, k], sampling)
            picked = logp.gather(1, chosen[:, None])[:, 0]
            for b, token, value in zip(speaking.tolist(), chosen.tolist(), picked.tolist(), strict=True):
                spoken[b][0].append(token)
                spoken[b][1].append(value)
            on = chosen != self.policy.end_id
            speaking = speaking[on]
            if k + 1 == self.max_action_tokens or not len(speaking):
                break
            hidden = self._read_one(chosen[on], following[speaking] + k, speaking, cache)
        return spoken

    def _read_one(self, tokens: Tensor, places: Tensor, rows: Tensor, cache: RaggedCache) -> Tensor:
        """Append one token [b] at positions [b] to some rows [b]; returns their hidden states [b, D]."""
        mask = cache.open(rows, 1, self.policy.model.dtype)
        ids = tokens[:, None]
        one = Rows(ids, places[:, None].expand(3, -1, -1), torch.full_like(ids, -1), torch.ones_like(tokens), [])
        hidden = hidden_states(self.policy, one, None, mask=mask, cache=cache)
        cache.advance(1)
        return hidden[:, 0]


def script_within(
    policy: Loaded, frames: FrameStore, episode: Episode, max_action_tokens: int, max_context: int
) -> Script:
    """What the episode's conversation is given. Raises UserError where its longest form exceeds `max_context`."""
    script = Script(policy, frames, episode)
    if (tokens := script.longest(max_action_tokens)) > max_context:
        raise UserError(
            f"params.yaml: rollout.max_context: episode {episode.id!r} may take {tokens} tokens, over the limit "
            f"of {max_context}; raise the limit, or lower policy.frame_pixels or rollout.max_action_tokens"
        )
    return script


def choose(logp: Tensor, uniforms: Tensor, sampling: Sampling) -> Tensor:
    """Draw a token [B] from each row of log-probs [B, V] by inverting its distribution at uniforms [B] in [0, 1).

    Of the sorted tokens top-k keeps the first k, then top-p the shortest run that reaches its mass.
    """
    if sampling.temperature == 0:
        return logp.argmax(-1)
    p = logp.double().exp()
    if sampling.top_k or sampling.top_p < 1:
        order = p.argsort(dim=-1, descending=True, stable=True)
        ranked = p.gather(-1, order)
        if sampling.top_k:
            ranked[:, sampling.top_k :] = 0
        before = ranked.cumsum(-1) - ranked
        ranked[before >= sampling.top_p * ranked.sum(-1, keepdim=True)] = 0
        p = torch.zeros_like(p).scatter(-1, order, ranked)
    mass = p.cumsum(-1)
    return torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True)[:, 0]


def _uniforms(shape: tuple[int, int], *key: object) -> Tensor:
    """The random numbers [T, K] in [0, 1) of one trajectory, from a stable hash of its key."""
    seed = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
