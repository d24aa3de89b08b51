"""Advantages that TRL computes from rewards, against turnwise.credit with TRL's eps (1e-4) and no clip."""

import math

import numpy as np
import pytest
import torch
from trl_side import GROUP, rows, trainer_for

from turnwise.credit import dr_grpo, gdpo, grpo, turnwise
from turnwise.records import Group

BATCH = rows()
GROUPS, TURNS = len(BATCH) // GROUP, 3
EPS = 1e-4
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
"""Of TRL's statistics, which take torch's default dtype."""


@pytest.fixture(params=TOLERANCE, ids=str)
def tolerance(request):
    torch.set_default_dtype(request.param)
    yield TOLERANCE[request.param]
    torch.set_default_dtype(torch.float32)


def rewards_like(seed, terms=1):
    """[terms, groups, G] numbers that float32 holds (TRL reads rewards so), of unequal size and spread by group."""
    rng = np.random.default_rng(seed)
    size = rng.choice([0.1, 1.0, 5.0], (terms, GROUPS, 1))
    return (size * rng.normal(rng.normal(), 1, (terms, GROUPS, GROUP))).astype(np.float32)


def prefix_scores(rewards, seed):
    """[groups, G, T + 1] that end in the rewards."""
    scores = np.random.default_rng(seed).normal(0, 1, (*rewards.shape, TURNS + 1))
    scores[..., 0] = 0.5
    scores[..., -1] = rewards
    return scores


def trl_advantages(folder, rewards, **settings):
    """[groups, G] by TRL, from rewards [terms, groups, G]."""
    trainer = trainer_for(folder, BATCH, rewards.reshape(len(rewards), -1).tolist(), torch.float32, **settings)
    inputs = trainer._generate_and_score_completions([{"prompt": "w3"} for _ in BATCH])
    return inputs["advantages"].double().numpy().reshape(GROUPS, GROUP)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale_rewards", ["group", "none"])
def test_group_advantages(model_folders, tolerance, scale_rewards, seed):
    rewards = rewards_like(seed)
    group = Group(prefix_scores(rewards[0], seed))
    theirs = trl_advantages(model_folders["opt"], rewards, scale_rewards=scale_rewards)
    rules = {
        "group": [grpo(group, eps=EPS, a_max=math.inf), turnwise(group, alpha=0.0, eps=EPS, a_max=math.inf)],
        "none": [dr_grpo(group)],
    }[scale_rewards]
    for credit in rules:
        for turn in range(TURNS):
            np.testing.assert_allclose(credit.turn[..., turn], theirs, rtol=0, atol=tolerance * np.abs(theirs).max())
        assert credit.live.all()


def test_a_group_without_spread(model_folders, tolerance):
    rewards = rewards_like(0)
    rewards[0, 1] = 2.75
    theirs = trl_advantages(model_folders["opt"], rewards)
    ours = grpo(Group(prefix_scores(rewards[0], 0)), eps=EPS, a_max=math.inf)
    np.testing.assert_allclose(ours.total, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())
    assert not theirs[1].any()
    assert ours.live.tolist() == [True, False]


def test_terms_normalised_by_themselves(model_folders, tolerance):
    """TRL's `normalize_then_sum` is gdpo, whitened over the batch."""
    rewards, weights = rewards_like(3, terms=2), {"a": 1.0, "b": -0.5}
    terms = {name: prefix_scores(term, 3) for name, term in zip(weights, rewards, strict=True)}
    scores = sum(weight * terms[name] for name, weight in weights.items())
    total = gdpo(Group(scores, terms, weights), eps=EPS, a_max=math.inf).total
    ours = (total - total.mean()) / (total.std(ddof=1) + EPS)
    settings = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": list(weights.values())}
    theirs = trl_advantages(model_folders["opt"], rewards, **settings)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())
