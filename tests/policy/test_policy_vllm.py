"""vLLM against the policy's own forward and `HfSampler`, on CPU; `.ci/run` runs this in an environment of its own."""

from importlib.util import find_spec

import pytest
import torch
from small_policy import FAMILIES, TEXTS, config_for

from turnwise.config import Lora
from turnwise.errors import UserError
from turnwise.policy.embedded import build_embedded
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import load_policy
from turnwise.policy.logprobs import action_logprobs, learning_batch
from turnwise.policy.sampler import HfSampler
from turnwise.policy.vllm_engine import VllmSampler
from turnwise.protocols import NO_REPLY

THERE = find_spec("vllm") is not None
with_vllm = pytest.mark.skipif(not THERE, reason="vllm is not installed; .ci/run tests it in an environment of its own")
CAPS = {"max_action_tokens": 8, "max_context": 512}
SAMPLED = {"temperature": 1.2, "top_k": 0, "top_p": 1.0, "seed": 5}


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory):
    """Heads of 32, since vLLM has no attention for smaller ones on CPU; more output rows than tokens, as published."""
    root = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        spec = config_for(family).model_copy(update={"heads": 2})
        build_embedded(spec, TEXTS, root / "small", seed=1)
        policy = load_policy(spec, NO_REPLY, root / "small", "cpu")
        policy.model.resize_token_embeddings(512, mean_resizing=False)
        policy.save(root / family)
    return {family: root / family for family in FAMILIES}


def gap(policy, frames, episodes, trajectories):
    """Largest distance of the log-probs as sampled from those of the training forward."""
    by_id = {episode.id: episode for episode in episodes}
    batch = learning_batch(policy, frames, [(by_id[t.episode], t) for t in trajectories])
    logp, _ = action_logprobs(policy, batch, temperature=SAMPLED["temperature"], with_grad=False)
    return float((logp - batch.old_logprobs)[batch.mask].abs().max())


def tokens(trajectories):
    return [[action.tokens for action in one.actions] for one in trajectories]


@with_vllm
def test_it_samples_what_the_policy_would(policy, frames, episodes):
    sampler = VllmSampler(policy, frames, **CAPS)
    rolled = sampler.rollout(episodes, 3, **SAMPLED)
    assert [(t.episode, t.index, len(t.actions)) for t in rolled] == [
        (e.id, i, e.turns) for e in episodes for i in range(3)
    ]
    assert gap(policy, frames, episodes, rolled) < 1e-4
    assert {len(tokens) for one in tokens(rolled) for tokens in one} > {1, 8}
    assert not any(policy.bans[token] < -1 for one in tokens(rolled) for said in one for token in said)

    cut = sampler.rollout(episodes, 3, **SAMPLED | {"top_k": 2, "top_p": 0.9})
    assert gap(policy, frames, episodes, cut) < 1e-4

    greedy = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    theirs, ours = (s.rollout(episodes, 1, **greedy) for s in (sampler, HfSampler(policy, frames, **CAPS)))
    assert tokens(theirs) == tokens(ours)
    for one, other in zip(theirs, ours, strict=True):
        for a, b in zip(one.actions, other.actions, strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
            assert (a.text, a.kind, a.capped) == (b.text, b.kind, b.capped)

    alone = sampler.rollout(episodes[1:], 2, **SAMPLED)
    assert tokens(alone) == tokens(rolled)[3:5]
    assert tokens(sampler.rollout(episodes, 3, **SAMPLED | {"seed": 6})) != tokens(rolled)

    with pytest.raises(UserError, match=r"rollout\.max_context: episode 'long' may take \d+ tokens"):
        VllmSampler(policy, frames, max_action_tokens=200, max_context=512).rollout(episodes, 1, **SAMPLED)


@with_vllm
def test_updates_arrive(policy, frames, episodes):
    """After one optimizer step and after twenty more; the tower's weights change too."""
    sampler = VllmSampler(policy, frames, **CAPS)
    said = [tokens(sampler.rollout(episodes, 2, **SAMPLED))]
    generator = torch.Generator().manual_seed(0)
    for steps in (1, 20):
        for _ in range(steps):
            with torch.no_grad():
                for parameter in policy.model.parameters():
                    parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
            rolled = sampler.rollout(episodes, 2, **SAMPLED)
        assert gap(policy, frames, episodes, rolled) < 1e-4
        assert tokens(rolled) not in said
        said.append(tokens(rolled))


@with_vllm
def test_an_adapter_is_added_in(model_folders, clips, episodes):
    spec = config_for("qwen3_vl").model_copy(
        update={"model": str(model_folders["qwen3_vl"]), "lora": Lora(rank=4, alpha=8, targets=("q_proj", "down_proj"))}
    )
    policy = load_policy(spec, NO_REPLY, None, "cpu")
    frames = FrameStore(clips, policy)
    sampler = VllmSampler(policy, frames, **CAPS)
    before = tokens(sampler.rollout(episodes, 2, **SAMPLED))
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
    rolled = sampler.rollout(episodes, 2, **SAMPLED)
    assert tokens(rolled) != before
    assert gap(policy, frames, episodes, rolled) < 1e-4


@pytest.mark.skipif(THERE, reason="vllm is installed")
def test_without_vllm_the_remedy_is_named(policy, frames, episodes):
    with pytest.raises(
        UserError, match=r"rollout\.engine: vllm is not installed here; `pip install 'turnwise\[vllm\]'`"
    ):
        VllmSampler(policy, frames, **CAPS).rollout(episodes, 1, **SAMPLED)
