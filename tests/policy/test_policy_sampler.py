import numpy as np
import pytest
import torch

from turnwise.errors import UserError
from turnwise.policy.frames import FrameStore
from turnwise.policy.logprobs import action_logprobs, learning_batch
from turnwise.policy.sampler import HfSampler, Sampling, choose

SAMPLED = {"temperature": 1.3, "top_k": 0, "top_p": 1.0, "seed": 5}


@pytest.fixture
def sampler(policy, frames):
    return HfSampler(policy, frames, max_action_tokens=7, max_context=2000)


def pairs(episodes, trajectories):
    by_id = {episode.id: episode for episode in episodes}
    return [(by_id[trajectory.episode], trajectory) for trajectory in trajectories]


def test_rollout_logprobs_are_the_learning_logprobs(policy, frames, sampler, episodes):
    """Ragged T, capped and short actions, a history, two frames a turn, frames of different shape."""
    trajectories = sampler.rollout(episodes, 6, **SAMPLED)
    actions = [action for trajectory in trajectories for action in trajectory.actions]
    assert {a.capped for a in actions} == {True, False}
    assert len({len(a.tokens) for a in actions}) >= 4
    batch = learning_batch(policy, frames, pairs(episodes, trajectories))
    logp, _ = action_logprobs(policy, batch, temperature=1.3, with_grad=False)
    assert logp[batch.mask].abs().mean() > 1
    torch.testing.assert_close(logp, batch.old_logprobs, atol=1e-4, rtol=0)


def test_every_marked_token_was_sampled(policy, frames, sampler, episodes):
    trajectories = sampler.rollout(episodes, 3, **SAMPLED)
    batch = learning_batch(policy, frames, pairs(episodes, trajectories))
    for b, trajectory in enumerate(trajectories):
        sampled = [(token, turn) for turn, action in enumerate(trajectory.actions) for token in action.tokens]
        marked = batch.mask[b]
        assert list(zip(batch.tokens[b][marked].tolist(), batch.turn_ids[b][marked].tolist(), strict=True)) == sampled


def test_shape_of_a_rollout(sampler, episodes):
    seen = []
    trajectories = sampler.rollout(episodes, 2, **SAMPLED, on_turn=lambda turn, actions: seen.append((turn, actions)))
    assert [(t.episode, t.index, len(t.actions)) for t in trajectories] == [
        ("long", 0, 4),
        ("long", 1, 4),
        ("past", 0, 2),
        ("past", 1, 2),
    ]
    assert [turn for turn, _ in seen] == [0, 1, 2, 3]
    assert seen[3][1] == [trajectories[0].actions[3], trajectories[1].actions[3], None, None]
    for action in (action for trajectory in trajectories for action in trajectory.actions):
        assert len(action.tokens) == len(action.logprobs) <= 7
        assert action.capped == (action.tokens[-1] != sampler.policy.end_id)


def test_a_trajectory_does_not_depend_on_its_neighbours(sampler, episodes):
    together = sampler.rollout(episodes, 4, **SAMPLED)
    alone = sampler.rollout(episodes[1:], 2, **SAMPLED)
    assert [[a.tokens for a in t.actions] for t in alone] == [[a.tokens for a in t.actions] for t in together[4:6]]
    other = sampler.rollout(episodes[1:], 2, **{**SAMPLED, "seed": 6})
    assert [[a.tokens for a in t.actions] for t in other] != [[a.tokens for a in t.actions] for t in alone]
    assert len({tuple(a.tokens for a in t.actions) for t in together}) == 8


def test_a_long_action_holds_up_no_wait(policy, sampler, episodes, monkeypatch):
    """Trajectory i speaks to the cap at turn i and waits at the others: in lock-step that would take 4 * 7 forwards."""
    marks = np.eye(4)[:, :, None] * np.ones(7)
    word = int((policy.bans == 0).nonzero()[0])
    read, forwards = HfSampler._read, []
    monkeypatch.setattr(HfSampler, "_read", lambda *words: forwards.append(1) or read(*words))
    monkeypatch.setattr("turnwise.policy.sampler._uniforms", lambda *words: marks[words[-1]])
    monkeypatch.setattr(
        "turnwise.policy.sampler.choose", lambda _, uniforms, __: torch.where(uniforms > 0.5, word, policy.end_id)
    )
    trajectories = sampler.rollout(episodes[:1], 4, **SAMPLED)
    assert [[len(a.tokens) for a in t.actions] for t in trajectories] == (1 + 6 * np.eye(4, dtype=int)).tolist()
    assert len(forwards) < 28


def test_greedy_is_the_likeliest_token_each_time(policy, frames, sampler, episodes):
    greedy = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    first, second = sampler.rollout(episodes, 2, **greedy, seed=1), sampler.rollout(episodes, 2, **greedy, seed=2)
    assert [t.actions for t in first] == [t.actions for t in second]
    batch = learning_batch(policy, frames, pairs(episodes, first))
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    torch.testing.assert_close(logp, batch.old_logprobs, atol=1e-4, rtol=0)


def test_banned_tokens_are_never_said(policy, sampler, episodes):
    hot = {**SAMPLED, "temperature": 50.0}
    said = {i for t in sampler.rollout(episodes, 12, **hot) for action in t.actions for i in action.tokens}
    assert len(said) > 100
    assert not said & set((policy.bans < 0).nonzero()[:, 0].tolist())


def test_a_context_that_may_overflow_is_refused(policy, frames, episodes):
    sampler = HfSampler(policy, frames, max_action_tokens=7, max_context=100)
    with pytest.raises(UserError, match=r"max_context.*'long'.*\d+ tokens.*100"):
        sampler.rollout(episodes, 2, **SAMPLED)


def test_the_tower_sees_a_frame_once(policy, clips, episodes):
    frames = FrameStore(clips, policy)
    sampler = HfSampler(policy, frames, max_action_tokens=3, max_context=2000)
    trajectories = sampler.rollout(episodes, 4, **SAMPLED)
    action_logprobs(
        policy, learning_batch(policy, frames, pairs(episodes, trajectories)), temperature=1.0, with_grad=False
    )
    assert frames.tower_frames == 8 + 4


P = torch.tensor([[0.1, 0.4, 0.0, 0.3, 0.2]])


@pytest.mark.parametrize(
    ("kwargs", "uniform", "token"),
    [
        ({}, 0.05, 0),
        ({}, 0.15, 1),
        ({}, 0.55, 3),
        ({}, 0.99, 4),
        ({"top_k": 2}, 0.0, 1),
        ({"top_k": 2}, 0.6, 3),
        ({"top_k": 1}, 0.99, 1),
        ({"top_p": 0.4}, 0.99, 1),
        ({"top_p": 0.7}, 0.99, 3),
        ({"top_p": 0.71}, 0.99, 4),
        ({"top_k": 2, "top_p": 0.5}, 0.99, 1),
        ({"temperature": 0.0}, 0.99, 1),
    ],
)
def test_choose_inverts_the_distribution(kwargs, uniform, token):
    sampling = Sampling(**({"temperature": 1.0, "top_k": 0, "top_p": 1.0} | kwargs))
    assert choose(P.log().clamp(min=-1e30), torch.tensor([uniform], dtype=torch.float64), sampling).tolist() == [token]
