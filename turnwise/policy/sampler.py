"""Roll-out in process: all trajectories side by side over the grid, each turn appended to what the decoder remembers.

They go on at their own pace: while one still speaks, others have begun their next turn, so a long reply holds up no wait.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.policy.cache import RaggedCache
from turnwise.policy.conversation import NOTHING, Conversation, Piece, Script, stack
from turnwise.policy.forward import hidden_states, log_probabilities
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded
from turnwise.policy.positions import text_positions
from turnwise.records import Action, Trajectory

OnTurn = Callable[[int, Sequence[Action | None]], None]
"""Called, in order, once every trajectory has taken a turn: its 0-based number and all actions (None after a grid's end)."""
READ_AT = 0.5
"""Share of the rows that must wait for their next turn before theirs is read; till then the others speak on."""
DROP_AT = 0.25
"""Share of the rows that must have ended before the cache is rid of them: that copies it."""


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
    """One trajectory on its way: it reads what a turn shows, then says its action token by token."""

    def __init__(self, policy: Loaded, script: Script, episode: Episode, index: int, uniforms: NDArray[np.float64]):
        """`uniforms` [T, K]: the random number of each token."""
        self.conversation, self.episode, self.index = Conversation(policy, script), episode, index
        self.actions: list[Action] = []
        self._policy, self._uniforms, self._read = policy, uniforms, 0
        self._said: list[tuple[int, float]] = []

    @property
    def ended(self) -> bool:
        """Whether every turn is taken."""
        return len(self.actions) == self.episode.turns

    @property
    def speaking(self) -> bool:
        """Whether an action has begun."""
        return bool(self._said)

    @property
    def uniform(self) -> float:
        """The random number of the next token."""
        return float(self._uniforms[len(self.actions), len(self._said)])

    def pending(self) -> Piece:
        """What is to be read before the next token: the last one said, or what the next turn shows and all before."""
        if self._said:
            place = self.conversation.following + len(self._said) - 1
            return Piece([self._said[-1][0]], [], text_positions(1, place), place + 1)
        self.conversation.show(len(self.actions))
        return self.conversation.since(self._read)

    def say(self, token: int, logprob: float) -> None:
        """Go on with the action; the end-of-turn token or the cap ends it. Its last token is read with the next turn."""
        self._said.append((token, logprob))
        if token == self._policy.end_id or len(self._said) == self._uniforms.shape[1]:
            tokens, logprobs = map(list, zip(*self._said, strict=True))
            self._read = len(self.conversation.ids) + len(tokens) - 1
            self.conversation.act(len(self.actions), tokens)
            self.actions.append(self._policy.action(tokens, logprobs))
            self._said = []


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
        live, cache, told = rows, RaggedCache(len(rows), self.policy.device), 0
        sampling = Sampling(temperature, top_k, top_p)
        while stay := [i for i, row in enumerate(live) if not row.ended]:
            if len(stay) <= (1 - DROP_AT) * len(live):
                live = [live[i] for i in stay]
                cache.keep(torch.tensor(stay, device=self.policy.device))
            self._step(live, cache, sampling)
            if on_turn:
                told = _tell(rows, told, on_turn)
        return [Trajectory(row.episode.id, row.index, tuple(row.actions)) for row in rows]

    def _rows(self, episodes: Sequence[Episode], group_size: int, seed: int) -> list[_Row]:
        self.frames.prefetch(episodes)
        rows = []
        for episode in episodes:
            script = script_within(self.policy, self.frames, episode, self.max_action_tokens, self.max_context)
            for index in range(group_size):
                uniforms = _uniforms((episode.turns, self.max_action_tokens), seed, episode.id, index)
                rows.append(_Row(self.policy, script, episode, index, uniforms))
        return rows

    def _step(self, rows: list[_Row], cache: RaggedCache, sampling: Sampling) -> None:
        """One token of the rows that wait for their next turn, once they are many, or else of those that speak."""
        live = [b for b, row in enumerate(rows) if not row.ended]
        waiting = [b for b in live if not rows[b].speaking]
        reading = len(waiting) >= READ_AT * len(live)
        at = waiting if reading else list(range(len(rows)))
        pieces = [rows[b].pending() if reading or rows[b].speaking else NOTHING for b in at]
        logp = log_probabilities(self.policy, self._read(at, pieces, cache), sampling.temperature)
        acting = [rows[b] for b, piece in zip(at, pieces, strict=True) if piece.ids]
        uniforms = torch.tensor([row.uniform for row in acting], dtype=torch.float64, device=logp.device)
        chosen = choose(logp, uniforms, sampling)
        picked = logp.gather(1, chosen[:, None])[:, 0]
        for row, token, value in zip(acting, chosen.tolist(), picked.tolist(), strict=True):
            row.say(token, value)

    def _read(self, at: Sequence[int], pieces: list[Piece], cache: RaggedCache) -> Tensor:
        """Append new tokens of these rows; returns the hidden states [n, D] of the last ones of the n that have any."""
        rows = stack(pieces, self.policy)
        mask = cache.open(torch.tensor(at, device=self.policy.device), rows.ids.shape[1], self.policy.model.dtype)
        features = self.frames.features(rows.frames) if rows.frames else None
        hidden = hidden_states(self.policy, rows, features, mask=mask, cache=cache)
        cache.advance(rows.lengths)
        took = torch.nonzero(rows.lengths)[:, 0]
        return hidden[took, rows.lengths[took] - 1]


def _tell(rows: Sequence[_Row], told: int, on_turn: OnTurn) -> int:
    """Call `on_turn` for the turns after the first `told` that every row has taken; returns how many those are in all."""
    longest = max(row.episode.turns for row in rows)
    taken = min((len(row.actions) for row in rows if not row.ended), default=longest)
    for turn in range(told, taken):
        on_turn(turn, [row.actions[turn] if turn < row.episode.turns else None for row in rows])
    return taken


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


def _uniforms(shape: tuple[int, int], *key: object) -> NDArray[np.float64]:
    """The random numbers [T, K] in [0, 1) of one trajectory, from a stable hash of its key."""
    seed = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).numpy()
