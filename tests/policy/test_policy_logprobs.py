import math

import pytest
import torch

from turnwise.policy.forward import hidden_states, log_probabilities
from turnwise.policy.frames import Frame, FrameStore, frames_of
from turnwise.policy.loading import tower, trainable_parameters
from turnwise.policy.logprobs import action_logprobs, learning_batch
from turnwise.records import Trajectory


@pytest.fixture
def batch(policy, frames, episodes):
    said = {"long": [None, "A red ball appears.", None, "cubes"], "past": ["How many cubes?", None]}
    pairs = [(e, Trajectory(e.id, 0, tuple(map(policy.encode_action, said[e.id])))) for e in episodes]
    return learning_batch(policy, frames, pairs)


def test_each_token_is_predicted_by_the_one_before(policy, batch):
    """Against a plain forward with logits everywhere."""
    temperature = 0.7
    with torch.no_grad():
        hidden = hidden_states(policy, batch.rows, batch.frames.features(batch.rows.frames))
        logits = policy.model.lm_head(hidden) / temperature + policy.bans
        plain = logits[:, :-1].log_softmax(-1).gather(2, batch.rows.ids[:, 1:, None])[..., 0]
    logp, _ = action_logprobs(policy, batch, temperature=temperature, with_grad=False)
    for b in range(2):
        kept = batch.mask[b]
        assert batch.rows.ids[b, batch.predicts[b, kept] + 1].equal(batch.tokens[b, kept])
        torch.testing.assert_close(logp[b, kept], plain[b, batch.predicts[b, kept]])
        assert (logp[b, ~kept] == 0).all()


def test_equal_to_the_models_own_forward(policy, batch):
    """transformers' forward with pixels and its own positions, one row at a time, and bans after it."""
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    for b, conversation in enumerate(batch.conversations):
        piece = conversation.since(0)
        ids = torch.tensor([piece.ids])
        patches = batch.frames.patches([frame for frame, _ in piece.frames])
        pixels = torch.cat([p.values for p in patches]).unsqueeze(2).expand(-1, -1, 2, -1).flatten(1)
        grids = torch.tensor([(1, h * policy.merge, w * policy.merge) for _, (h, w) in piece.frames])
        with torch.no_grad():
            logits = policy.model(
                input_ids=ids,
                pixel_values=pixels,
                image_grid_thw=grids,
                mm_token_type_ids=(ids == policy.image_id).int(),
            ).logits[0]
        kept = batch.mask[b]
        theirs = (logits + policy.bans).log_softmax(-1)[batch.predicts[b, kept], batch.tokens[b, kept]]
        torch.testing.assert_close(logp[b, kept], theirs, atol=1e-4, rtol=0)


def test_micro_batches_give_the_same(policy, batch):
    whole, entropy = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    for row in (0, 1):
        part = batch.select(slice(row, row + 1))
        logp, part_entropy = action_logprobs(policy, part, temperature=1.0, with_grad=False)
        torch.testing.assert_close(logp[0], whole[row], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(part_entropy[0], entropy[row], atol=1e-5, rtol=1e-5)
        assert {frame.clip for frame in part.rows.frames} == {"ab"[row] + ".mp4"}


def test_a_batch_that_is_only_cut_is_not_put_side_by_side(batch):
    part = batch.select(slice(0, 1))
    assert "rows" not in vars(batch)
    assert part.rows.ids.equal(batch.rows.ids[:1, : int(batch.rows.lengths[0])])
    assert part.rows is part.rows


def test_gradient_reaches_the_tower_only_where_it_trains(policy, batch):
    for freeze in (False, True):
        policy.model.zero_grad(set_to_none=True)
        parameters = trainable_parameters(policy, freeze)
        action_logprobs(policy, batch, temperature=1.0, with_grad=True)[0].sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in parameters)
        assert any(p.grad is not None for p in tower(policy).parameters()) != freeze


def test_banned_tokens_have_no_probability(policy):
    hidden = torch.randn(3, policy.model.config.text_config.hidden_size)
    p = log_probabilities(policy, hidden, 0.5).exp()
    torch.testing.assert_close(p.sum(-1), torch.ones(3))
    assert (p[:, policy.bans < 0] == 0).all()


def test_entropy_is_over_the_allowed_tokens(policy, batch):
    """Weights of zero leave every allowed token equally likely."""
    policy.bans[policy.end_id] = 0.0
    with torch.no_grad():
        policy.model.lm_head.weight.zero_()
    logp, entropy = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    allowed = math.log(int((policy.bans == 0).sum()))
    torch.testing.assert_close(entropy[batch.mask], torch.full_like(entropy[batch.mask], allowed))
    torch.testing.assert_close(logp[batch.mask], torch.full_like(logp[batch.mask], -allowed))


def test_frames_that_go_unseen_are_an_error(policy, batch):
    store = batch.frames
    more = store.features([*batch.rows.frames, Frame("a.mp4", 9.0)])
    for features in (more, None):
        with pytest.raises(ValueError, match="unseen"):
            hidden_states(policy, batch.rows, features)
    fewer = batch.rows._replace(slots=torch.full_like(batch.rows.slots, -1))
    with pytest.raises(ValueError, match="unseen"):
        hidden_states(policy, fewer, store.features(batch.rows.frames))


def test_features_follow_the_towers_weights(policy, clips):
    store, shown = FrameStore(clips, policy), [Frame("a.mp4", 1.0), Frame("b.mp4", 1.0)]
    first = store.features(shown).embeds
    assert store.features(shown).embeds.equal(first)
    assert store.tower_frames == 2
    assert store.features(shown, with_grad=True).embeds.requires_grad
    with torch.no_grad():
        next(tower(policy).parameters()).mul_(1.5)
    assert not store.features(shown).embeds.equal(first)
    assert store.tower_frames == 6


@pytest.fixture
def decoded(monkeypatch) -> list[list[float]]:
    """The times that each opening of a clip reads."""
    from turnwise.policy import frames as module

    opened, read = [], module.read_frames
    monkeypatch.setattr(module, "read_frames", lambda path, times: opened.append(list(times)) or read(path, times))
    return opened


def test_a_store_forgets_the_longest_unused_frame(policy, clips, decoded):
    store = FrameStore(clips, policy, capacity=2)
    for time in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):
        store.patches([Frame("a.mp4", time)])
    assert decoded == [[1.0], [2.0], [3.0], [2.0]]


def test_a_store_decodes_all_at_once_or_a_few_frames_ahead(policy, clips, episodes, decoded):
    whole, few = FrameStore(clips, policy), FrameStore(clips, policy, ahead=3)
    whole.prefetch(episodes)
    assert [len(times) for times in decoded] == [8, 4]
    decoded.clear()
    few.prefetch(episodes)
    assert decoded == []
    shown = frames_of(episodes[0])
    for frame in shown:
        assert few.grid(frame) == whole.grid(frame)
        torch.testing.assert_close(few.patches([frame])[0].values, whole.patches([frame])[0].values, rtol=0, atol=0)
    assert decoded == [[frame.time for frame in shown[start : start + 3]] for start in (0, 3, 6)]
