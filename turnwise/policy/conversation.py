"""A conversation is token ids, made once and appended to; it is never decoded and tokenised again.

What is given (system prompt, frames, queries, history) is written once an episode and shared by its group. Of an
action, the sampled tokens alone are marked: the end-of-turn token where it was sampled, never one that was added.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.policy.frames import Frame, FrameStore
from turnwise.policy.loading import Loaded
from turnwise.policy.positions import Grid, positions, text_positions

GIVEN = -1
"""Turn id of every token that was not sampled."""


class Piece(NamedTuple):
    """A stretch of n tokens with the frames that its placeholders stand for."""

    ids: list[int]
    frames: list[tuple[Frame, Grid]]
    positions: NDArray[np.int64]
    """[3, n]"""
    following: int
    """The position that comes after."""


NOTHING = Piece([], [], text_positions(0), 0)


class Script:
    """What of an episode's conversation is given: an opening with the history, then what each turn shows."""

    def __init__(self, policy: Loaded, store: FrameStore, episode: Episode):
        self._policy, self._store, self._clip = policy, store, episode.clip
        opening = [*policy.headers["system"], *policy.encode(policy.protocol.system), policy.end_id, *policy.newline]
        seen: list[tuple[Frame, Grid]] = []
        texts = [[query.text for query in queries] for queries in episode.shown_queries()]
        for past, said in zip(episode.history, texts, strict=False):
            ids, frames = self._shown(past.frame_times, said)
            opening += [*ids, *policy.encode_action(past.text).tokens, *policy.closing]
            seen += frames
        self.opening = self._piece(opening, seen)
        decided = zip(episode.grid.frame_times, texts[len(episode.history) :], strict=True)
        self.turns = tuple(self._piece(*self._shown(times, said)) for times, said in decided)

    def longest(self, max_action_tokens: int) -> int:
        """Tokens of the conversation if every action ran into the cap, with its closing tokens."""
        given = len(self.opening.ids) + sum(len(turn.ids) for turn in self.turns)
        return given + len(self.turns) * (max_action_tokens + 1 + len(self._policy.closing))

    def _shown(self, times: Sequence[float], texts: Sequence[str]) -> tuple[list[int], list[tuple[Frame, Grid]]]:
        """A user message with the frames and then the texts, and the header of the answer.

        Without messages (`Protocol.messages`) the frames alone, after a user message with the texts, if any.
        """
        policy = self._policy
        frames = [Frame(self._clip, time) for time in times]
        grids = [self._store.grid(frame) for frame in frames]
        seen: list[int] = []
        for h, w in grids:
            seen += [policy.vision_start_id, *[policy.image_id] * (h * w), policy.vision_end_id]
        said = policy.encode("\n".join(texts)) if texts else []
        opened, closed = policy.headers["user"], [policy.end_id, *policy.newline]
        if policy.protocol.messages:
            ids = [*opened, *seen, *said, *closed, *policy.headers["assistant"]]
        else:
            ids = [*opened, *said, *closed, *seen] if texts else seen
        return ids, list(zip(frames, grids, strict=True))

    def _piece(self, ids: list[int], frames: list[tuple[Frame, Grid]]) -> Piece:
        return Piece(ids, frames, *positions(ids, [grid for _, grid in frames], {self._policy.image_id}))


class Conversation:
    """One trajectory's tokens so far."""

    def __init__(self, policy: Loaded, script: Script):
        self._policy, self._script = policy, script
        self.ids: list[int] = []
        """[L]"""
        self.turn_ids: list[int] = []
        """[L] the 0-based turn of a sampled token, `GIVEN` elsewhere."""
        self.following = 0
        """Position of the next text token."""
        self._positions: list[NDArray[np.int64]] = []
        self._frames: list[tuple[int, Frame, Grid]] = []
        self._append(script.opening)

    def show(self, turn: int) -> None:
        """Append what the turn shows and the header of its answer."""
        self._append(self._script.turns[turn])

    def act(self, turn: int, tokens: Sequence[int]) -> None:
        """Append a sampled action, then the tokens that close its turn, which no one sampled."""
        closing = [*([] if tokens[-1] == self._policy.end_id else [self._policy.end_id]), *self._policy.closing]
        ids = [*tokens, *closing]
        self._append(Piece(ids, [], text_positions(len(ids)), len(ids)))
        self.turn_ids[len(self.ids) - len(ids) : len(self.ids) - len(closing)] = [turn] * len(tokens)

    def since(self, token: int) -> Piece:
        """The tokens from index `token` on, with their positions and frames; `token` lies outside every frame."""
        frames = [(frame, grid) for at, frame, grid in self._frames if at >= token]
        return Piece(self.ids[token:], frames, np.concatenate(self._positions, axis=1)[:, token:], self.following)

    def _append(self, piece: Piece) -> None:
        start = len(self.ids)
        self.ids += piece.ids
        self.turn_ids += [GIVEN] * len(piece.ids)
        self._positions.append(piece.positions + self.following)
        self._frames += [(start, frame, grid) for frame, grid in piece.frames]
        self.following += piece.following


class Rows(NamedTuple):
    """Stretches of B conversations side by side, filled up at the right to a common length L."""

    ids: Tensor
    """[B, L]"""
    positions: Tensor
    """[3, B, L]"""
    slots: Tensor
    """[B, L] index of each placeholder's visual token among those of `frames`, in order; -1 elsewhere."""
    lengths: Tensor
    """[B] tokens without the filling."""
    frames: list[Frame]
    """The distinct frames shown."""


def stack(pieces: Sequence[Piece], policy: Loaded) -> Rows:
    """Put stretches of conversations side by side on the policy's device."""
    lengths = [len(piece.ids) for piece in pieces]
    first: dict[Frame, int] = {}
    total = 0
    for frame, (h, w) in (shown for piece in pieces for shown in piece.frames):
        if frame not in first:
            first[frame], total = total, total + h * w
    ids = np.full((len(pieces), max(lengths)), policy.tokenizer.pad_token_id)
    places, slots = np.zeros((3, *ids.shape), np.int64), np.full(ids.shape, -1)
    for b, (piece, n) in enumerate(zip(pieces, lengths, strict=True)):
        ids[b, :n], places[:, b, :n] = piece.ids, piece.positions
        visual = [first[frame] + i for frame, (h, w) in piece.frames for i in range(h * w)]
        slots[b, ids[b] == policy.image_id] = visual
    on = [torch.from_numpy(a).to(policy.device) for a in (ids, places, slots, np.array(lengths))]
    return Rows(on[0], on[1], on[2], on[3], list(first))
