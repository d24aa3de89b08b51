"""SFT and RL with a LoRA adapter go the same way as with all weights, and leave the base alone."""

import pytest
import torch
from safetensors.torch import load_file

from tasks.models import sampler_of
from turnwise.config import Arm, Lora
from turnwise.episodes import read_demonstrations
from turnwise.judging import VerdictCache, build_judge
from turnwise.policy import FrameStore, load_policy
from turnwise.protocols import NO_REPLY
from turnwise.rewards import build_reward
from turnwise.training.epoch import epoch_order, rollout_seed
from turnwise.training.rl import Epoch, Experiment
from turnwise.training.sft import warm_up

LORA = Lora(rank=2, alpha=4, targets=("q_proj", "v_proj", "down_proj"))


@pytest.fixture
def adapted(params, world, tmp_path):
    """The experiment with a fresh adapter on the warmed-up model."""
    section = params.policy.model_copy(update={"model": str(world / "model"), "lora": LORA})
    rl = params.rl.model_copy(update={"updates": 2, "validate_every": 100})
    params = params.model_copy(update={"policy": section, "rl": rl})
    policy = load_policy(section, NO_REPLY, None, "cpu")
    frames = FrameStore(world / "data", policy)
    judge, reward = build_judge(params.judge.train), build_reward(params.reward, params.judge.train.levels)
    verdicts = VerdictCache(tmp_path / "verdicts.sqlite")
    return Experiment(params, policy, sampler_of(params, policy, frames), frames, judge, verdicts, reward)


def tensors(policy):
    return {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}


def moved(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_rl_trains_the_adapter_alone_and_goes_on_from_its_checkpoint(adapted, episodes, dev, tmp_path):
    first = epoch_order(episodes, 0)[:2]
    trajectories = adapted.rollout(first, 4, 1.0, rollout_seed(0, 1))
    swept = adapted.sweep(first, trajectories, adapted.evidence(first, trajectories))
    arm = Arm(credit="turnwise", alpha=1.0)
    start = tensors(adapted.policy)
    assert len(list(Epoch(adapted, arm, 0, episodes, dev, swept, tmp_path / "straight").updates())) == 2
    end = tensors(adapted.policy)
    changed = moved(start, end)
    assert changed
    assert all("lora_" in name for name in changed)

    adapted.policy.model.load_state_dict(start)
    next(Epoch(adapted, arm, 0, episodes, dev, swept, tmp_path / "stopped").updates())
    kept = load_file(tmp_path / "stopped" / "checkpoints" / "update-00001" / "weights.safetensors")
    assert kept.keys() == {name for name in start if "lora_" in name}
    adapted.policy.model.load_state_dict(start)
    assert len(list(Epoch(adapted, arm, 0, episodes, dev, swept, tmp_path / "stopped").updates())) == 1
    assert not moved(end, tensors(adapted.policy))

    adapted.policy.save(tmp_path / "model")
    again = load_policy(adapted.params.policy, NO_REPLY, tmp_path / "model", "cpu")
    assert not moved(end, tensors(again))


def test_sft_trains_the_adapter_alone(adapted, params, world):
    captions = read_demonstrations(world / "data" / "captions.jsonl")
    streams = read_demonstrations(world / "data" / "demonstrations.jsonl")
    config = params.sft.model_copy(update={"caption_steps": 2, "stream_steps": 2})
    start = tensors(adapted.policy)
    assert len(list(warm_up(adapted.policy, adapted.frames, captions, streams, config, seed=0))) == 4
    changed = moved(start, tensors(adapted.policy))
    assert changed
    assert all("lora_" in name for name in changed)
