"""What the benchmarks share: items, replies, scored samples, and episodes on the grid.

Scores are shares 0..1 in samples and percent 0..100 in metrics. All times are seconds from the start of the clip.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from turnwise.config import Stream
from turnwise.episodes import Episode, Grid, HistoryTurn, Query, Window


@dataclass(frozen=True)
class Reply:
    """What was said, and at which decision time."""

    time: float
    text: str


Predictions = Mapping[str, Sequence[Reply]]
"""Replies in time order by item key; an item without replies has an empty sequence."""


@dataclass(frozen=True)
class Item:
    """One scored unit of an annotation file."""

    subset: str
    id: str
    clip: str
    """Path of the video, relative to the benchmark's root."""

    @property
    def key(self) -> str:
        """Name of the item within its benchmark, `<subset>/<id>`."""
        return f"{self.subset}/{self.id}"

    @property
    def ends(self) -> float:
        """Where its stream ends (seconds); a reply after that was never due."""
        raise NotImplementedError

    @property
    def units(self) -> int:
        """How many scores it counts for: the turns of a ProactiveVideoQA item, else 1."""
        return 1

    @property
    def asked(self) -> float | None:
        """When it asks what must be answered at once (seconds); None where the policy decides when to speak."""
        return None

    @property
    def wants(self) -> Literal["letter", "count", "yes_no"]:
        """What kind of answer it wants, where it is `asked`."""
        return "letter"

    @property
    def parroted(self) -> str:
        """What a policy can say that only reads the question."""
        return "."

    @property
    def oddity(self) -> str | None:
        """What is odd about its record, though it can be scored."""
        return None


AnyItem = TypeVar("AnyItem", bound=Item)


@dataclass(frozen=True)
class Loaded(Generic[AnyItem]):
    """The items of a benchmark, and the records that cannot be used, with the reason: none is dropped silently."""

    items: tuple[AnyItem, ...]
    refused: tuple[tuple[str, str], ...]
    """(record, reason) pairs."""
    records: int
    """How many records the items come from."""
    files: tuple[Path, ...] = ()
    """The annotation files."""

    def report(self) -> dict[str, Any]:
        """Counts of records, and the refused and the odd ones by name; an odd one is usable."""
        refused = [{"record": record, "reason": reason} for record, reason in self.refused]
        odd = [{"record": item.key, "oddity": item.oddity} for item in self.items if item.oddity]
        return {"found": self.records + len(refused), "usable": self.records, "refused": refused, "odd": odd}


@dataclass(frozen=True)
class Sample:
    """How one item was scored: a row of the `samples` table."""

    item: Item
    query_time: float | None
    score: float | None
    """Share 0..1; None where the item could not be scored."""
    replies: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A benchmark's samples and its metrics, in percent."""

    samples: tuple[Sample, ...]
    metrics: dict[str, Any]


def percent(share: float | None) -> float | None:
    """A share in percent; None stays None."""
    return None if share is None else 100 * share


def mean(values: Iterable[float | None]) -> float | None:
    """Plain mean; None where there is no value, or where one of them is None (a mean never hides a missing part)."""
    listed = list(values)
    if not listed or None in listed:
        return None
    return math.fsum(value for value in listed if value is not None) / len(listed)


def grid_over(start: float, end: float, limit: float, stream: Stream) -> Grid:
    """The fewest turns from `start` whose last decision reaches `end`, none of them after `limit`.

    Where a whole turn does not fit before `limit`, one shorter turn shows what there is. Raises ValueError where
    `limit` is not after `start`.
    """
    if limit <= start:
        raise ValueError(f"nothing is left to show: the stream starts at {start:g} s and ends at {limit:g} s")
    step = stream.frame_interval * stream.frames_per_turn
    fit = math.floor((limit - start) / step + 1e-9)
    if not fit:
        interval = (limit - start) / stream.frames_per_turn
        return Grid(start=start, frame_interval=interval, frames_per_turn=stream.frames_per_turn, turns=1)
    turns = max(1, min(fit, math.ceil((end - start) / step - 1e-9)))
    return Grid(start=start, frame_interval=stream.frame_interval, frames_per_turn=stream.frames_per_turn, turns=turns)


def episode_of(
    item: Item,
    grid: Grid,
    queries: Sequence[Query],
    windows: Sequence[Window] = (),
    history: Sequence[HistoryTurn] = (),
) -> Episode:
    """The episode that puts an item to a policy; its id is the item's key."""
    return Episode(
        id=item.key,
        clip=item.clip,
        task=item.subset,
        grid=grid,
        queries=tuple(queries),
        windows=tuple(windows),
        history=tuple(history),
    )


def by_subset(samples: Iterable[Sample], subsets: Sequence[str]) -> dict[str, list[Sample]]:
    """Samples of each subset, in the order of `subsets`."""
    grouped: dict[str, list[Sample]] = {subset: [] for subset in subsets}
    for sample in samples:
        grouped[sample.item.subset].append(sample)
    return grouped


def asked_episode(item: Item, question: str, time: float, shown: float, stream: Stream) -> Episode:
    """One decision, at `time`, on a question asked then, after the `shown` seconds before it as silent history.

    The last frame shown is the one at `time`; where the grid does not divide `shown`, its first seconds are left out.
    """
    grid = grid_over(0.0, shown, shown, stream)
    grid = grid.model_copy(update={"start": max(0.0, time - grid.times[-1])})
    past = list(zip(grid.times, grid.frame_times, strict=True))[:-1]
    last = grid.model_copy(update={"start": past[-1][0] if past else grid.start, "turns": 1})
    history = [HistoryTurn(time=time, frame_times=frames, text=None) for time, frames in past]
    return episode_of(item, last, [Query(text=question, time=last.times[-1])], history=history)
