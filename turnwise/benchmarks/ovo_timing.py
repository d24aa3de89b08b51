"""OVO-Timing: how well the times of replies match the times of events, on OVO-Bench's forward tasks (CRR, REC, SSR).

Official annotation: `<root>/ovo_bench_new.json`; videos below `<root>/videos/`. What a reply says is not judged. Events
are those of the released code: a CRR item's `clue_time`, and two seconds after the start of each REC action and SSR step.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from turnwise.benchmarks.items import (
    Annotation,
    Item,
    Loaded,
    Predictions,
    Result,
    Sample,
    Text,
    by_subset,
    episode_of,
    grid_over,
    mean,
    only_once,
    parse,
    percent,
    read_list,
)
from turnwise.config import Stream
from turnwise.episodes import Episode, Query, Seconds
from turnwise.errors import UserError

NAME = "ovo_timing"
FOLDER = "ovobench"
SUBSETS = ("CRR", "REC", "SSR")
CHOICE_TASKS = ("EPM", "HLD", "OJR", "STU", "OCR", "ASI", "ATR", "ACR", "FPD")
"""OVO-Bench's multiple-choice tasks, which have no events to time."""
DELAY = 2.0
"""Seconds from the start of an action or a step to its event, as released."""


class _Probe(Annotation):
    realtime: Seconds


class _Record(Annotation):
    id: int
    video: Text
    test_info: Annotated[tuple[_Probe, ...], Field(min_length=1)]


class _Crr(_Record):
    task: Literal["CRR"]
    question: Text
    ask_time: Seconds
    clue_time: Seconds

    @model_validator(mode="after")
    def _asked_before_clue(self) -> "_Crr":
        if self.clue_time < self.ask_time:
            raise ValueError(f"clue_time {self.clue_time} must not be before ask_time {self.ask_time}")
        return self


class _Rec(_Record):
    task: Literal["REC"]
    activity: Text
    start_times: Annotated[tuple[Seconds, ...], Field(min_length=1)]


class _Ssr(_Record):
    task: Literal["SSR"]
    tutorial: Text
    start_time: Annotated[tuple[Seconds, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Timed(Item):
    """A question about a stream, and the times of the events that should be answered."""

    question: str
    start: float
    """Where the stream starts and the question is asked."""
    end: float
    """The last probe time; the stream does not go past it."""
    events: tuple[float, ...]
    """In time order; two events may share a time."""


def load(root: Path) -> Loaded[Timed]:
    """The forward records of `root/ovo_bench_new.json`. Raises UserError naming file, record and field."""
    path = root / "ovo_bench_new.json"
    loaded = only_once(_item(raw, path, number) for number, raw in enumerate(read_list(path)) if _is_forward(raw, path))
    missing = set(SUBSETS) - {item.subset for item in loaded.items}
    if missing:
        raise UserError(f"{path}: task: no record of {', '.join(sorted(missing))}; Timing F1 is the mean of all three")
    return loaded


def _is_forward(raw: dict[str, Any], path: Path) -> bool:
    task = raw.get("task")
    if task not in SUBSETS + CHOICE_TASKS:
        raise UserError(
            f"{path}: record {raw.get('id')}: task: {task!r} is none of OVO-Bench's twelve tasks; correct it"
        )
    return task in SUBSETS


def _item(raw: dict[str, Any], path: Path, number: int) -> Timed:
    name = str(raw.get("id", f"number {number}"))
    start, record = 0.0, parse(_Record, raw, path, name)
    if raw["task"] == "CRR":
        crr = parse(_Crr, raw, path, name)
        question, start, events = crr.question, crr.ask_time, [crr.clue_time]
    elif raw["task"] == "REC":
        rec = parse(_Rec, raw, path, name)
        question = f"How many times does the event: {rec.activity} happen?"
        events = [time + DELAY for time in rec.start_times]
    else:
        ssr = parse(_Ssr, raw, path, name)
        question = f"Describe the steps of {spaced(ssr.tutorial)}"
        events = [time + DELAY for time in ssr.start_time]
    end = max(probe.realtime for probe in record.test_info)
    if end <= start:
        raise UserError(f"{path}: record {name}: test_info: no realtime is after {start:g} s; correct this record")
    clip = f"videos/{record.video}"
    return Timed(raw["task"], str(record.id), clip, question, start, end, tuple(sorted(events)))


def spaced(name: str) -> str:
    """`AssembleDesktopPC` as `assemble desktop pc`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()


def episode(item: Timed, stream: Stream, duration: float) -> Episode:
    """From the question to the last probe, within the clip (`duration` in seconds)."""
    limit = min(item.end, duration)
    grid = grid_over(item.start, limit, limit, stream)
    return episode_of(item, grid, [Query(text=item.question, time=item.start)])


def matches(events: Sequence[float], times: Sequence[float], tolerance: float) -> int:
    """Size of a maximum one-to-one matching of events and replies at most `tolerance` seconds apart, inclusive.

    Both are sorted first; intervals of equal length make the earliest fit a maximum then.
    """
    waiting = sorted(times)
    count = 0
    for event in sorted(events):
        while waiting and waiting[0] < event - tolerance:
            waiting.pop(0)
        if waiting and waiting[0] <= event + tolerance:
            waiting.pop(0)
            count += 1
    return count


def f1(precision: float, recall: float) -> float:
    """Harmonic mean; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def score(items: Sequence[Timed], predictions: Predictions, *, tolerance: float) -> Result:
    """Timing F1: of mean precision and mean recall over a subtask's items; the headline is the mean of the three.

    An item without a reply has precision 0. `tolerance` in seconds, inclusive.
    """
    samples = tuple(_sample(item, [reply.time for reply in predictions[item.key]], tolerance) for item in items)
    subsets = {name: _summary(part) for name, part in by_subset(samples, SUBSETS).items()}
    counts = {"scored": len(samples), "expected": len(samples), "unparsable": 0, "unit": "items"}
    replies = sum(sample.replies for sample in samples)
    score = mean(part["score"] for part in subsets.values())
    return Result(samples, {"score": score, **counts, "replies": replies, "subsets": subsets})


def _sample(item: Timed, times: Sequence[float], tolerance: float) -> Sample:
    matched = matches(item.events, times, tolerance)
    precision, recall = matched / len(times) if times else 0.0, matched / len(item.events)
    detail = {"precision": precision, "recall": recall, "matched": matched, "events": len(item.events)}
    return Sample(item, item.start, f1(precision, recall), len(times), detail)


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    precision, recall = (mean(sample.detail[name] for sample in samples) for name in ("precision", "recall"))
    return {
        "score": None if precision is None or recall is None else percent(f1(precision, recall)),
        "precision": percent(precision),
        "recall": percent(recall),
        "scored": len(samples),
        "expected": len(samples),
        "unparsable": 0,
        "replies": sum(sample.replies for sample in samples),
        "unit": "items",
    }
