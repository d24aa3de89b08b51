"""What the work costs: one SFT step, one roll-out and one RL update of the embedded policy, measured side by side in one run.

`make bench` prints it. Times are medians of the repeats after one warm-up, on the machine named in the first line.
"""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from perf.core import crediting, sweeping
from perf.policy import engine
from tasks.models import policy_of, sampler_of
from tasks.sft import texts_of
from turnwise.config import Params, compose, validate
from turnwise.episodes import read_demonstrations, read_episodes
from turnwise.judging import VerdictCache, build_judge
from turnwise.policy import FrameStore, build_embedded
from turnwise.rewards import build_reward
from turnwise.training.rl import Epoch, Experiment
from turnwise.training.sft import warm_up
from turnwise.worlds import build

REPEATS = 5


def main() -> None:
    """Build a small world and print the tables."""
    print(machine())
    values = compose([])
    values["data"] |= {"sft_clips": 24, "rl_clips": 12, "dev_clips": 2, "benchmark_clips": 2, "captions": 512}
    values["rl"] |= {"updates": REPEATS + 2, "validate_every": 100}
    params = validate(values, "profiles/embedded.yaml")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        clips = params.data.sft_clips + params.data.rl_clips + params.data.dev_clips + 3 * params.data.benchmark_clips
        seconds = clock(lambda: build(params.data, params.stream, root / "data"))
        print(f"\ndata: {seconds:.1f} s for {clips} clips, rendered and checked ({clips / seconds:.1f} a second)")
        supervised(params, root)
        update(params, root)
    engine()
    sweeping()
    crediting()


def machine() -> str:
    """The machine and what runs on it, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    return f"{cpu}, {os.cpu_count()} cores, torch {torch.__version__}, 1 thread a stage"


def clock(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def supervised(params: Params, root: Path) -> None:
    """Seconds of one SFT step of each phase, from the default profile's batches."""
    captions = read_demonstrations(root / "data" / "captions.jsonl")
    streams = read_demonstrations(root / "data" / "demonstrations.jsonl")
    build_embedded(params.policy, texts_of(captions + streams), root / "model", 0)
    policy = policy_of(params, root / "model")
    frames = FrameStore(root / "data", policy)
    print("\nsft, seconds a step")
    for name, counts in (("captions", (REPEATS + 1, 0)), ("streams", (0, REPEATS + 1))):
        settings = params.sft.model_copy(update=dict(zip(("caption_steps", "stream_steps"), counts, strict=True)))
        steps = warm_up(policy, frames, captions, streams, settings, seed=0)
        seconds = [clock(lambda steps=steps: next(steps)) for _ in range(REPEATS + 1)][1:]
        print(f"  {name:10s} {statistics.median(seconds):.3f}")
    policy.save(root / "model")


def update(params: Params, root: Path) -> None:
    """Seconds of one RL update by part, with each part's share; the paper does not report the sweep's."""
    policy = policy_of(params, root / "model")
    frames = FrameStore(root / "data", policy)
    episodes = read_episodes(root / "data" / "rl.jsonl")
    judge, reward = build_judge(params.judge.train), build_reward(params.reward, params.judge.train.levels)
    sampler = sampler_of(params, policy, frames)
    verdicts = VerdictCache(root / "verdicts.sqlite")
    experiment = Experiment(params, policy, sampler, frames, judge, verdicts, reward)
    epoch = Epoch(experiment, params.arm("turnwise"), 0, episodes, episodes[:1], [], root / "state")
    first = epoch.order[: params.rl.groups_per_update]
    trajectories = experiment.rollout(first, params.rollout.group_size, 1.0, 0)
    epoch.first = experiment.sweep(first, trajectories, experiment.evidence(first, trajectories))
    laps = [update.seconds for update in epoch.updates()][1:-1]
    total = statistics.median(sum(lap.values()) for lap in laps)
    rows = params.rl.groups_per_update * params.rollout.group_size
    turns = np.mean([episode.turns for episode in episodes])
    print(
        f"\nrl, seconds of an update of {rows} trajectories of {turns:.1f} turns (median of {len(laps)}: {total:.2f})"
    )
    for part in ("rollout", "judge", "sweep", "credit", "learn", "save"):
        seconds = statistics.median(lap[part] for lap in laps)
        print(f"  {part:10s} {seconds:8.4f}  {100 * seconds / total:5.1f} %")


if __name__ == "__main__":
    main()
