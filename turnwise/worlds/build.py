"""Everything of the embedded world, written below one folder: clips, demonstrations, episodes and small benchmarks.

Each clip has a random stream of its own, from the world's seed, its split and its number: the same parameters give the
same bytes, and the clips of two splits are never the same.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from turnwise.config import Data, Stream
from turnwise.episodes import Demonstration, Episode, write_records
from turnwise.errors import UserError
from turnwise.files import write_json
from turnwise.progress import Bar
from turnwise.videos import check_clip, write_clip
from turnwise.worlds.demonstrations import demonstrate, make_caption
from turnwise.worlds.official import SUBSETS, benchmark_files
from turnwise.worlds.render import render
from turnwise.worlds.scenes import FEWEST_TURNS, Scene, draw_scene
from turnwise.worlds.tasks import TASKS, make_episode

SPLITS = ("sft", "rl", "dev", "benchmarks", "captions", "records")
"""Names of the random streams; the last two draw texts, not clips."""


class Clip(NamedTuple):
    """A clip to render: its path below the root, its script and the rest of its random stream."""

    path: str
    scene: Scene
    rng: np.random.Generator


def build(data: Data, stream: Stream, root: Path) -> dict[str, Any]:
    """Write the world below `root` and return its counts, which `root/report.json` holds too.

    Writes captions.jsonl, demonstrations.jsonl, rl.jsonl, dev.jsonl, clips/ and benchmarks/; every clip is decoded and
    checked once. Raises UserError where an episode has too few turns for the world.
    """
    if data.min_turns < FEWEST_TURNS:
        raise UserError(f"params.yaml: data.min_turns: {data.min_turns} turns are too few; give {FEWEST_TURNS} or more")
    splits = {split: _draw_split(data, stream, split, clips) for split, clips in _sizes(data).items()}
    benchmarks = _draw_benchmarks(data, stream)
    total = sum(len(clips) for clips, _ in splits.values()) + sum(map(len, benchmarks.values()))
    with Bar("clips", total) as bar:
        for clips in (*(clips for clips, _ in splits.values()), *benchmarks.values()):
            for clip in clips:
                _film(clip, data, root)
                bar.advance()
    counts = _write_splits(data, stream, root, splits) | {"benchmarks": _write_benchmarks(data, root, benchmarks)}
    report = {"clips": total, **counts}
    write_json(root / "report.json", report)
    return report


def _rng(data: Data, split: str, number: int = 0) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((data.seed, SPLITS.index(split), number)))


def _sizes(data: Data) -> dict[str, int]:
    return {"sft": data.sft_clips, "rl": data.rl_clips, "dev": data.dev_clips}


def _draw_split(data: Data, stream: Stream, split: str, clips: int) -> tuple[list[Clip], list[Episode]]:
    """The clips of a split and their episodes; the five tasks take turns."""
    drawn, episodes, tasks = [], [], list(TASKS)
    for number in range(clips):
        first = number * data.episodes_per_clip
        wanted = [tasks[(first + k) % len(tasks)] for k in range(data.episodes_per_clip)]
        name = f"{split}-{number:04d}"
        clip, found = _draw_clip(data, stream, _rng(data, split, number), f"clips/{split}/{name}.mp4", wanted, name)
        drawn.append(clip)
        episodes += found
    return drawn, episodes


def _draw_clip(
    data: Data, stream: Stream, rng: np.random.Generator, path: str, tasks: Sequence[str], name: str
) -> tuple[Clip, list[Episode]]:
    """A script that allows an episode of each task, found by drawing again until one does."""
    turns = int(rng.integers(data.min_turns, data.max_turns + 1))
    step = stream.frame_interval * stream.frames_per_turn
    while True:
        scene = draw_scene(rng, turns, step, data.fps)
        found = (make_episode(rng, t, scene, stream, name=f"{name}-{k}", clip=path) for k, t in enumerate(tasks))
        episodes = [episode for episode in found if episode is not None]
        if len(episodes) == len(tasks):
            return Clip(path, scene, rng), episodes


def _draw_benchmarks(data: Data, stream: Stream) -> dict[str, list[Clip]]:
    """The clips of each benchmark folder; every clip allows every kind of question."""
    folders = {f"proactivevideoqa/{subset}": data.benchmark_clips for subset in SUBSETS}
    folders = {folder: max(1, clips // 4 + (i < clips % 4)) for i, (folder, clips) in enumerate(folders.items())}
    folders |= {"ovobench": data.benchmark_clips, "streamingbench": data.benchmark_clips}
    drawn: dict[str, list[Clip]] = {}
    for folder, clips in folders.items():
        start = sum(map(len, drawn.values()))
        # OVO-Bench and StreamingBench name their videos plainly; ProactiveVideoQA's TV names hold an `=`.
        prefix = "scene=" if folder.endswith("TV") else "sample_"
        drawn[folder] = []
        for number in range(clips):
            path = f"benchmarks/{folder}/videos/{prefix}{number}.mp4"
            clip, _ = _draw_clip(data, stream, _rng(data, "benchmarks", start + number), path, list(TASKS), folder)
            drawn[folder].append(clip)
    return drawn


def _film(clip: Clip, data: Data, root: Path) -> None:
    write_clip(root / clip.path, render(clip.rng, clip.scene, data.size), data.fps)
    check_clip(root / clip.path)


def _write_splits(
    data: Data, stream: Stream, root: Path, splits: dict[str, tuple[list[Clip], list[Episode]]]
) -> dict[str, Any]:
    """Write demonstrations, captions and episodes; returns how many of each task."""
    demonstrations = [demonstrate(_rng(data, "records", i), e, data) for i, e in enumerate(splits["sft"][1])]
    records: dict[str, Sequence[Demonstration | Episode]] = {
        "captions": _captions(data, stream, splits["sft"][0]),
        "demonstrations": demonstrations,
        "rl": splits["rl"][1],
        "dev": splits["dev"][1],
    }
    counts = {}
    for name, rows in records.items():
        write_records(root / f"{name}.jsonl", rows)
        episodes = (row.episode if isinstance(row, Demonstration) else row for row in rows)
        counts[name] = {"episodes": len(rows), "tasks": dict(sorted(Counter(e.task for e in episodes).items()))}
    return counts


def _captions(data: Data, stream: Stream, clips: Sequence[Clip]) -> list[Demonstration]:
    rng = _rng(data, "captions")
    chosen = [clips[i] for i in rng.integers(len(clips), size=data.captions)]
    return [
        make_caption(rng, clip.scene, stream, name=f"caption-{number:05d}", clip=clip.path, thoughts=data.thoughts)
        for number, clip in enumerate(chosen)
    ]


def _write_benchmarks(data: Data, root: Path, clips: dict[str, list[Clip]]) -> dict[str, int]:
    """Write the annotation files; returns the number of records of each."""
    named = {folder: [(Path(clip.path).name, clip.scene) for clip in drawn] for folder, drawn in clips.items()}
    files = benchmark_files(_rng(data, "records", 10**6), named)
    for path, records in files.items():
        write_json(root / "benchmarks" / path, records)
    return {path: len(records) for path, records in files.items()}
