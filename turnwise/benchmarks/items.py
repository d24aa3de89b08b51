"""What the three benchmarks share: items, replies, scored samples, and the checked reading of annotation files.

Scores are shares 0..1 in samples and percent 0..100 in metrics. All times are seconds from the start of the clip.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.config import Stream
from turnwise.episodes import Episode, Grid, HistoryTurn, Query, Window, describe
from turnwise.errors import UserError


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


AnyItem = TypeVar("AnyItem", bound=Item)


@dataclass(frozen=True)
class Loaded(Generic[AnyItem]):
    """The items of a benchmark, and the records that cannot be used, with the reason: none is dropped silently."""

    items: tuple[AnyItem, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """(record, reason) pairs."""

    def report(self) -> dict[str, Any]:
        """`{"found", "usable", "refused"}`: counts, and the refused records with their reasons."""
        refused = [{"record": record, "reason": reason} for record, reason in self.refused]
        return {"found": len(self.items) + len(refused), "usable": len(self.items), "refused": refused}


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


Text = Annotated[str, Field(min_length=1)]


class Annotation(BaseModel):
    """A record of an annotation file; fields that no scorer needs are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


AnyAnnotation = TypeVar("AnyAnnotation", bound=Annotation)


def read_list(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of an annotation file. Raises UserError where the file is missing or no list of objects."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; put the benchmark's official annotation there") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}; fetch the file again") from None
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise UserError(f"{path}: must hold a list of records, as the official annotation does")
    return records


def parse(model: type[AnyAnnotation], record: dict[str, Any], path: Path, name: str) -> AnyAnnotation:
    """One record as `model`. Raises UserError naming the file, the record and the field."""
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise UserError(
            f"{path}: record {name}: {describe(error).removeprefix('record: ')}; correct this record"
        ) from None


def only_once(items: Iterable[AnyItem]) -> Loaded[AnyItem]:
    """Keep the first item of each key and refuse the later ones."""
    kept: dict[str, AnyItem] = {}
    refused = []
    for item in items:
        if item.key in kept:
            refused.append((item.key, "stands twice; the first record counts"))
        else:
            kept[item.key] = item
    return Loaded(tuple(kept.values()), tuple(refused))


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
