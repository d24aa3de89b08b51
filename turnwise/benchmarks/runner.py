"""Streaming inference on a benchmark, greedy, with the same prompts and template as in training.

`push`: frames arrive on the grid and the policy itself decides when to speak. `poll`: Proactive Output as StreamingBench
asks for it, once a second whether it is time. A question that wants its answer at once is asked once either way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from turnwise.benchmarks import streamingbench
from turnwise.benchmarks.items import Item, Loaded, Predictions, Reply
from turnwise.benchmarks.predictions import read_predictions
from turnwise.benchmarks.store import line_of
from turnwise.config import Stream
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.files import write_jsonl
from turnwise.progress import Bar
from turnwise.records import Trajectory
from turnwise.videos import clip_duration

if TYPE_CHECKING:
    from turnwise.policy.sampler import Sampler

Mode = Literal["push", "poll"]
MODES: dict[Mode, str] = {
    "push": "push: the policy decides at each turn",
    "poll": "poll: asked each second, told the target text, until it says yes or 4 s past the target",
}


@dataclass(frozen=True)
class Prepared:
    """A benchmark ready to run: its records and one episode an item, in the same order."""

    name: str
    root: Path
    loaded: Loaded[Any]
    episodes: tuple[Episode, ...]
    durations: Mapping[str, float]
    """Seconds, by clip."""


def prepare(benchmark: ModuleType, loaded: Loaded[Any], root: Path, stream: Stream, **options: Any) -> Prepared:
    """Lay a benchmark's items on the grid; clips are relative to `root`, `options` go to the benchmark's `episode`.

    Raises UserError for a bad clip.
    """
    durations = {clip: clip_duration(root / clip) for clip in dict.fromkeys(item.clip for item in loaded.items)}
    episodes = []
    for item in loaded.items:
        try:
            episodes.append(benchmark.episode(item, stream, durations[item.clip], **options))
        except ValueError as error:
            raise UserError(
                f"{root / item.clip}: {item.key}: {error}; check that this is the annotated video"
            ) from None
    return Prepared(benchmark.NAME, root, loaded, tuple(episodes), durations)


def rollout(sampler: "Sampler", episodes: Sequence[Episode]) -> dict[str, list[Reply]]:
    """Greedy replies to each episode, by its id, all streams side by side."""
    trajectories = sampler.rollout(episodes, 1, temperature=0.0, top_k=0, top_p=1.0, seed=0)
    return {e.id: replies(e, t) for e, t in zip(episodes, trajectories, strict=True)}


def replies(episode: Episode, trajectory: Trajectory) -> list[Reply]:
    """What a trajectory said, with the decision times; silence and malformed actions are left out."""
    turns = zip(episode.grid.times, trajectory.actions, strict=True)
    return [Reply(time, action.text) for time, action in turns if action.kind == "reply"]


def poll(
    sampler: "Sampler", items: Sequence[streamingbench.Asked], durations: Mapping[str, float], stream: Stream
) -> dict[str, list[Reply]]:
    """Official polling of Proactive Output items, by key: the first reply with `yes` in it is asked what to say, then."""
    found: dict[str, list[Reply]] = {item.key: [] for item in items}
    times = {item.key: streamingbench.poll_times(item, durations[item.clip]) for item in items}
    for number in range(max(map(len, times.values()), default=0)):
        waiting = [item for item in items if not found[item.key] and number < len(times[item.key])]
        said = _ask(sampler, waiting, times, number, stream, asking=True)
        ready = [item for item in waiting if "yes" in said[item.key].lower()]
        answers = _ask(sampler, ready, times, number, stream, asking=False)
        found |= {key: [Reply(times[key][number], text)] for key, text in answers.items()}
    return found


def _ask(
    sampler: "Sampler",
    items: Sequence[streamingbench.Asked],
    times: Mapping[str, Sequence[float]],
    number: int,
    stream: Stream,
    *,
    asking: bool,
) -> dict[str, str]:
    """What the policy says to each item at its poll of that number; silence is an empty text."""
    if not items:
        return {}
    episodes = [streamingbench.poll_episode(item, times[item.key][number], stream, asking=asking) for item in items]
    return {key: "".join(reply.text for reply in said) for key, said in rollout(sampler, episodes).items()}


def infer(
    prepared: Prepared,
    sampler: "Sampler",
    stream: Stream,
    *,
    batch: int,
    done: Callable[[list[tuple[Item, list[Reply]]]], None],
    mode: Mode = "push",
    skip: Iterable[str] = (),
) -> None:
    """Run the items whose key is not in `skip`, `batch` streams side by side; those of like length and clip together.

    `done` hears of each finished batch.
    """
    known = set(skip)
    items = {item.key: item for item in prepared.loaded.items}
    for part in batches((e for e in prepared.episodes if e.id not in known), batch):
        polled = [items[e.id] for e in part if mode == "poll" and items[e.id].asked is None]
        pushed = [e for e in part if mode == "push" or items[e.id].asked is not None]
        found = poll(sampler, polled, prepared.durations, stream) | (rollout(sampler, pushed) if pushed else {})
        done([(items[e.id], found[e.id]) for e in part])


def batches(episodes: Iterable[Episode], size: int) -> list[list[Episode]]:
    """Lots of `size` episodes, those of like length and clip together."""
    order = sorted(episodes, key=lambda e: (e.turns, e.clip, e.id))
    return [order[first : first + size] for first in range(0, len(order), size)]


def infer_all(
    sampler_for: "Callable[[Path], Sampler]", prepared: Sequence[Prepared], batch: int, state: Path
) -> dict[str, dict[str, list[Reply]]]:
    """Predictions of every benchmark, by its name, by push; `sampler_for(root)` reads clips relative to `root`.

    Each finished batch is a file below `state`; a batch that is there is not run again.
    """
    found: dict[str, dict[str, list[Reply]]] = {run.name: {} for run in prepared}
    with Bar("evaluate", sum(len(run.episodes) for run in prepared)) as bar:
        for run in prepared:
            items, sampler = {item.key: item for item in run.loaded.items}, sampler_for(run.root)
            for number, part in enumerate(batches(run.episodes, batch)):
                path, chosen = state / run.name / f"{number:05}.jsonl", [items[e.id] for e in part]
                said = _kept(path, run.name, chosen)
                if said is None:
                    said = rollout(sampler, part)
                    write_jsonl(path, [line_of(item, said[item.key]) for item in chosen])
                found[run.name] |= said
                bar.advance(len(part))
    return found


def _kept(path: Path, benchmark: str, items: Sequence[Item]) -> dict[str, list[Reply]] | None:
    """The predictions of a batch from its file; None where there is none, or it is damaged."""
    if not path.is_file():
        return None
    try:
        read = read_predictions([path], benchmark, items)
    except UserError:
        return None
    return None if read.faults or read.missing() else read.replies


def write_predictions(
    path: Path, prepared: Iterable[Prepared], predictions: Mapping[str, Predictions], protocol: str
) -> None:
    """One line an item: benchmark, subset, item, replies [{time (s), text}], and the hash of the inference protocol."""
    write_jsonl(
        path,
        (
            {"benchmark": run.name, **line_of(item, predictions[run.name][item.key]), "protocol": protocol}
            for run in prepared
            for item in run.loaded.items
        ),
    )
