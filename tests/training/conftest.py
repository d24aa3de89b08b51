"""A world of a few clips and a policy small enough to train in a test."""

from pathlib import Path

import pytest
import torch

from tasks.models import sampler_of
from tasks.sft import texts_of
from turnwise.config import Params, compose, merge, validate
from turnwise.episodes import read_demonstrations, read_episodes
from turnwise.judging import VerdictCache, build_judge
from turnwise.policy import FrameStore, build_embedded, load_policy
from turnwise.protocols import NO_REPLY
from turnwise.rewards import build_reward
from turnwise.training.rl import Experiment
from turnwise.training.sft import warm_up
from turnwise.worlds import build

SMALL = {
    "data": {"sft_clips": 4, "rl_clips": 3, "dev_clips": 1, "benchmark_clips": 1, "captions": 64, "max_turns": 12},
    "policy": {"hidden": 32, "layers": 2, "vision_hidden": 32, "vision_layers": 1},
    "sft": {"caption_steps": 8, "caption_batch": 16, "stream_steps": 12, "stream_batch": 4, "lr": 0.01},
    "rollout": {"group_size": 4, "groups": 2, "max_action_tokens": 20},
    "rl": {"updates": 3, "groups_per_update": 2, "micro_batch": 3, "validate_every": 2, "lr": 0.001},
}


@pytest.fixture(scope="session")
def params() -> Params:
    return validate(merge(compose([]), SMALL), "tests")


@pytest.fixture(scope="session")
def world(params: Params, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/ and model/, the latter after a short warm-up; its losses are in `losses.txt`."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("world")
    build(params.data, params.stream, root / "data")
    captions = read_demonstrations(root / "data" / "captions.jsonl")
    streams = read_demonstrations(root / "data" / "demonstrations.jsonl")
    build_embedded(params.policy, texts_of(captions + streams), root / "model", 0)
    policy = load_policy(params.policy, NO_REPLY, root / "model", "cpu")
    steps = warm_up(policy, FrameStore(root / "data", policy), captions, streams, params.sft, seed=0)
    (root / "losses.txt").write_text("\n".join(f"{step.phase} {step.loss}" for step in steps))
    policy.save(root / "model")
    return root


@pytest.fixture
def experiment(params: Params, world: Path, tmp_path: Path) -> Experiment:
    policy = load_policy(params.policy, NO_REPLY, world / "model", "cpu")
    frames = FrameStore(world / "data", policy)
    judge, reward = build_judge(params.judge.train), build_reward(params.reward, params.judge.train.levels)
    verdicts = VerdictCache(tmp_path / "verdicts.sqlite")
    return Experiment(params, policy, sampler_of(params, policy, frames), frames, judge, verdicts, reward)


@pytest.fixture(scope="session")
def episodes(world: Path):
    return read_episodes(world / "data" / "rl.jsonl")


@pytest.fixture(scope="session")
def dev(world: Path):
    return read_episodes(world / "data" / "dev.jsonl")
