"""Streaming inference on a benchmark, greedy, and the predictions file.

Frames arrive on the grid and the policy itself decides when to speak (push); the same prompts and template as in training.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from turnwise.benchmarks import ovo_timing, proactivevideoqa, streamingbench
from turnwise.benchmarks.items import Item, Loaded, Predictions, Reply
from turnwise.config import Stream
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.files import write_jsonl
from turnwise.progress import Bar
from turnwise.records import Trajectory
from turnwise.videos import clip_duration

if TYPE_CHECKING:
    from turnwise.policy.sampler import Sampler

BENCHMARKS: tuple[ModuleType, ...] = (proactivevideoqa, ovo_timing, streamingbench)
"""Each has NAME, FOLDER, SUBSETS, `load(root)`, `episode(item, stream, duration)` and `score(items, predictions, ...)`."""


@dataclass(frozen=True)
class Prepared:
    """A benchmark ready to run: its records and one episode an item, in the same order."""

    name: str
    root: Path
    loaded: Loaded[Any]
    episodes: tuple[Episode, ...]


def prepare(benchmark: ModuleType, root: Path, stream: Stream) -> Prepared:
    """Load a benchmark below `root` and lay its items on the grid. Raises UserError for a bad record or clip."""
    loaded = benchmark.load(root)
    durations = {clip: clip_duration(root / clip) for clip in dict.fromkeys(item.clip for item in loaded.items)}
    episodes = tuple(_episode(benchmark, root, item, stream, durations[item.clip]) for item in loaded.items)
    return Prepared(benchmark.NAME, root, loaded, episodes)


def _episode(benchmark: ModuleType, root: Path, item: Item, stream: Stream, duration: float) -> Episode:
    try:
        return benchmark.episode(item, stream, duration)
    except ValueError as error:
        raise UserError(f"{root / item.clip}: {item.key}: {error}; check that this is the annotated video") from None


def infer(
    sampler: "Sampler", episodes: Sequence[Episode], batch: int, done: Callable[[int], None]
) -> dict[str, list[Reply]]:
    """Replies to each episode, by its id, `batch` streams in lock-step; those of like length and clip run together.

    `done` hears of each finished batch's size.
    """
    order = sorted(episodes, key=lambda episode: (episode.turns, episode.clip, episode.id))
    predictions: dict[str, list[Reply]] = {}
    for first in range(0, len(order), batch):
        part = order[first : first + batch]
        trajectories = sampler.rollout(part, 1, temperature=0.0, top_k=0, top_p=1.0, seed=0)
        predictions.update({e.id: replies(e, t) for e, t in zip(part, trajectories, strict=True)})
        done(len(part))
    return predictions


def replies(episode: Episode, trajectory: Trajectory) -> list[Reply]:
    """What a trajectory said, with the decision times; silence and malformed actions are left out."""
    turns = zip(episode.grid.times, trajectory.actions, strict=True)
    return [Reply(time, action.text) for time, action in turns if action.kind == "reply"]


def infer_all(
    sampler_for: "Callable[[Path], Sampler]", prepared: Iterable[Prepared], batch: int
) -> dict[str, dict[str, list[Reply]]]:
    """Predictions of every benchmark, by its name; `sampler_for(root)` reads clips relative to `root`."""
    runs = list(prepared)
    with Bar("evaluate", sum(len(run.episodes) for run in runs)) as bar:
        return {run.name: infer(sampler_for(run.root), run.episodes, batch, bar.advance) for run in runs}


def write_predictions(
    path: Path, prepared: Iterable[Prepared], predictions: Mapping[str, Predictions], protocol: str
) -> None:
    """One line an item: benchmark, subset, item, replies [{time (s), text}], and the hash of the inference protocol."""
    write_jsonl(
        path,
        (
            {
                "benchmark": run.name,
                "subset": item.subset,
                "item": item.id,
                "replies": [{"time": reply.time, "text": reply.text} for reply in predictions[run.name][item.key]],
                "protocol": protocol,
            }
            for run in prepared
            for item in run.loaded.items
        ),
    )
