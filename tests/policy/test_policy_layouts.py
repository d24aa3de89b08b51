"""The positions hold in every layout that the decoder takes; learning itself fills rows up at the right."""

import numpy as np
import pytest
import torch

from turnwise.policy.conversation import Conversation, Script, stack
from turnwise.policy.forward import hidden_states


@pytest.fixture
def pieces(policy, frames, episodes):
    conversations = [Conversation(policy, Script(policy, frames, episode)) for episode in episodes]
    for conversation in conversations:
        conversation.show(0)
    return [conversation.since(0) for conversation in conversations]


@pytest.fixture
def single(policy, frames, pieces):
    """Hidden states [L_1 + L_2, D] of conversations read one at a time."""
    with torch.no_grad():
        rows = [stack([piece], policy) for piece in pieces]
        return torch.cat([hidden_states(policy, row, frames.features(row.frames))[0] for row in rows])


def inputs(policy, frames, piece):
    """Embeddings [L, D] with the features put in, the places of these [L], and Qwen3-VL's further levels."""
    row = stack([piece], policy)
    features, visual = frames.features(row.frames), row.slots[0] >= 0
    embeds = policy.model.model.language_model.embed_tokens(row.ids[0])
    embeds[visual] = features.embeds[row.slots[0, visual]]
    return embeds, visual, [level[row.slots[0, visual]] for level in features.deepstack]


def decode(policy, embeds, places, visual, deepstack, **mask):
    levels = [torch.cat(level) for level in zip(*deepstack, strict=True)]
    extra = {"visual_pos_masks": visual, "deepstack_visual_embeds": levels} if levels else {}
    decoder = policy.model.model.language_model
    return decoder(inputs_embeds=embeds, position_ids=places, use_cache=False, **mask, **extra).last_hidden_state


@torch.no_grad()
def test_filled_up_at_the_right(policy, frames, pieces, single):
    rows = stack(pieces, policy)
    hidden = hidden_states(policy, rows, frames.features(rows.frames))
    filled = torch.cat([h[:n] for h, n in zip(hidden, rows.lengths, strict=True)])
    torch.testing.assert_close(filled, single, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_packed_into_one_row(policy, frames, pieces, single):
    """A fourth row of positions, those of plain text, tells conversations apart: it starts again with each."""
    embeds, visual, deepstack = zip(*(inputs(policy, frames, piece) for piece in pieces), strict=True)
    counted = np.concatenate([np.arange(len(piece.ids)) for piece in pieces])
    placed = np.concatenate([piece.positions for piece in pieces], axis=1)
    places = torch.from_numpy(np.concatenate([counted[None], placed]))[:, None]
    hidden = decode(policy, torch.cat(embeds)[None], places, torch.cat(visual)[None], deepstack)
    torch.testing.assert_close(hidden[0], single, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_filled_up_at_the_left(policy, frames, pieces, single):
    lengths = [len(piece.ids) for piece in pieces]
    shape = (len(pieces), max(lengths))
    mask, places = torch.zeros(shape, dtype=torch.long), torch.zeros(3, *shape, dtype=torch.long)
    embeds, visual, deepstack = torch.zeros(*shape, single.shape[1]), torch.zeros(shape, dtype=torch.bool), []
    for b, (piece, n) in enumerate(zip(pieces, lengths, strict=True)):
        embeds[b, -n:], visual[b, -n:], levels = inputs(policy, frames, piece)
        mask[b, -n:], places[:, b, -n:] = 1, torch.from_numpy(piece.positions)
        deepstack.append(levels)
    hidden = decode(policy, embeds, places, visual, deepstack, attention_mask=mask)
    filled = torch.cat([h[-n:] for h, n in zip(hidden, lengths, strict=True)])
    torch.testing.assert_close(filled, single, atol=1e-5, rtol=1e-4)
