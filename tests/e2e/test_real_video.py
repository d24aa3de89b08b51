"""A natural 720p clip, streamed: roll-out, judging, sweep and one update, with a small random policy."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tasks.models import policy_of, sampler_of
from turnwise.config import compose, merge, validate
from turnwise.episodes import Episode, Grid, Query, Window
from turnwise.judging import VerdictCache, build_judge
from turnwise.policy import FrameStore, build_embedded
from turnwise.policy.frames import frames_of
from turnwise.rewards import build_reward
from turnwise.training.rl import Epoch, Experiment
from turnwise.videos import clip_duration

CLIP = Path(__file__).parents[2] / ".cache" / "real" / "bbb.mp4"
SMALL = {
    "policy": {"hidden": 32, "heads": 2, "layers": 2, "vision_hidden": 32, "vision_layers": 1, "frame_pixels": 12544},
    "rollout": {"group_size": 4, "groups": 1, "max_action_tokens": 6},
    "rl": {"updates": 1, "groups_per_update": 1, "minibatches": 1},
}


def asked(start: float) -> Episode:
    """Twelve turns of two frames, a second apart, in the middle of the clip."""
    return Episode(
        id=f"bbb-{start:g}",
        clip=CLIP.name,
        task="real",
        grid=Grid(start=start, frame_interval=1.0, frames_per_turn=2, turns=12),
        queries=(Query(text="What does the rabbit do?", time=start),),
        windows=(Window(text="it smells a flower", related=(start, start + 9), reply=(start, start + 12)),),
    )


@pytest.mark.skipif(not CLIP.is_file(), reason=f"{CLIP.name} is not there; `make real-clip` fetches it")
def test_an_update_on_a_natural_clip(tmp_path):
    params = validate(merge(compose([]), SMALL), "tests")
    assert clip_duration(CLIP) == pytest.approx(596.46, abs=0.01)
    build_embedded(params.policy, ["What does the rabbit do? It smells a flower."], tmp_path / "model", 0)
    policy = policy_of(params, tmp_path / "model")
    frames = FrameStore(CLIP.parent, policy)
    judge, reward = build_judge(params.judge.train), build_reward(params.reward, params.judge.train.levels)
    verdicts = VerdictCache(tmp_path / "verdicts.sqlite")
    run = Experiment(params, policy, sampler_of(params, policy, frames), frames, judge, verdicts, reward)

    episodes = [asked(180.0)]
    trajectories = run.rollout(episodes, 4, 1.0, 0)
    assert [len(trajectory.actions) for trajectory in trajectories] == [12] * 4
    shown = frames.patches(frames_of(episodes[0]))
    assert len(shown) == frames.tower_frames == 24
    assert {patches.grid for patches in shown} == {(3, 5)}
    assert all(not torch.equal(a.values, b.values) for a, b in pairwise(shown))
    swept = run.sweep(episodes, trajectories, run.evidence(episodes, trajectories))

    before = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    (update,) = Epoch(run, params.arm("turnwise"), 0, episodes, episodes, swept, tmp_path / "state").updates()
    assert update.figures["logprob_gap"] < 1e-4
    assert update.figures["grad_norm"] > 0
    assert any(not torch.equal(before[name], tensor) for name, tensor in policy.model.state_dict().items())
    assert frames.tower_frames == 24
