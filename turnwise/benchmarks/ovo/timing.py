"""OVO-Timing: how well the times of replies match the times of events, on OVO-Bench's forward tasks (CRR, REC, SSR).

What a reply says is not judged. The released code has the event rule `released` and the matching `first`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.benchmarks.items import (
    Item,
    Loaded,
    Predictions,
    Result,
    Sample,
    by_subset,
    episode_of,
    grid_over,
    mean,
    percent,
)
from turnwise.benchmarks.ovo.load import FOLDER, FORWARD, Choice, Crr, Rec, Record, Ssr, load_records, spaced
from turnwise.benchmarks.reading import Refusal
from turnwise.config import EventRule, Matching, Stream
from turnwise.episodes import Episode, Query

NAME = "ovo_timing"
SUBSETS = FORWARD
GROUPS = tuple((subset,) for subset in SUBSETS)
"""The headline is the mean over groups of the mean over the subsets of a group."""
DELAY = 2.0
"""Seconds from the start of an action or a step to its event, as released."""
RULES = {
    "released": "clue_time; start + 2 s",
    "start": "clue_time; start",
    "end": "clue_time; end",
    "probe": "the first probe that expects it",
}
MATCHINGS = {
    "maximum": "maximum one-to-one",
    "first": "each event in turn takes the first unused reply",
}

__all__ = ["FOLDER", "GROUPS", "NAME", "SUBSETS", "Timed", "episode", "load", "parts", "protocol", "score", "share"]


@dataclass(frozen=True)
class Timed(Item):
    """A question about a stream, and the times of the events that should be answered."""

    question: str
    start: float
    """Where the stream starts and the question is asked."""
    end: float
    """The last probe time; the stream does not go past it."""
    events: tuple[float, ...]
    """In the order of the annotation; two events may share a time."""

    @property
    def ends(self) -> float:
        return self.end


def load(places: Sequence[Path], *, events: EventRule = "released") -> Loaded[Timed]:
    """The forward records of annotation files, or of the `ovo_bench_new.json` of a folder, with their events.

    Raises UserError for a file that cannot be read.
    """
    return load_records(places, lambda record: [_item(record, events)], FORWARD)


def _item(record: Record, rule: EventRule) -> Timed:
    assert not isinstance(record, Choice)
    start = record.ask_time if isinstance(record, Crr) else 0.0
    end = max(probe.realtime for probe in record.test_info)
    if end <= start:
        raise Refusal(f"test_info: no realtime is after {start:g} s")
    events = event_times(record, rule)
    if not events:
        raise Refusal("test_info: no probe expects an event")
    return Timed(record.task, str(record.id), record.clip, _question(record), start, end, events)


def _question(record: Crr | Rec | Ssr) -> str:
    if isinstance(record, Crr):
        return record.question
    if isinstance(record, Rec):
        return f"How many times does the event: {record.activity} happen?"
    return f"Describe the steps of {spaced(record.tutorial)}"


def event_times(record: Crr | Rec | Ssr, rule: EventRule) -> tuple[float, ...]:
    """When a record's events are due by a rule of `RULES`, in seconds, in the order of the annotation.

    `probe`: CRR, the first positive probe; SSR, the first positive probe of each step; REC, each rise of the count,
    an event for every one that it rises by.
    """
    if rule == "probe":
        return _probe_times(record)
    if isinstance(record, Crr):
        return (record.clue_time,)
    starts, ends = (
        (record.start_times, record.end_times) if isinstance(record, Rec) else (record.start_time, record.end_time)
    )
    return ends if rule == "end" else tuple(time + (DELAY if rule == "released" else 0.0) for time in starts)


def _probe_times(record: Crr | Rec | Ssr) -> tuple[float, ...]:
    if isinstance(record, Rec):
        return _rises(sorted((probe.realtime, probe.count) for probe in record.test_info))
    positive = [probe for probe in record.test_info if probe.type == 1]
    if isinstance(record, Crr):
        return tuple(sorted(probe.realtime for probe in positive)[:1])
    steps = zip(record.all_steps, record.start_time, strict=True)
    found = [
        min((p.realtime for p in positive if getattr(p, "step", None) == text and p.realtime >= start), default=None)
        for text, start in steps
    ]
    return tuple(time for time in found if time is not None)


def _rises(counts: Sequence[tuple[float, int]]) -> tuple[float, ...]:
    """(time, count) in time order -> a time for each that the count rises by above all before it."""
    highest, times = 0, []
    for time, count in counts:
        times += [time] * max(0, count - highest)
        highest = max(highest, count)
    return tuple(times)


def episode(item: Timed, stream: Stream, duration: float) -> Episode:
    """From the question to the last probe, within the clip (`duration` in seconds)."""
    limit = min(item.end, duration)
    grid = grid_over(item.start, limit, limit, stream)
    return episode_of(item, grid, [Query(text=item.question, time=item.start)])


def matches(events: Sequence[float], times: Sequence[float], tolerance: float, matching: Matching = "maximum") -> int:
    """How many events and replies pair up one-to-one at most `tolerance` seconds apart, inclusive.

    `maximum`: as many as can; both are sorted, and intervals of equal length make the earliest fit a maximum then.
    `first`: each event, in the order given, takes the first reply in the order given that no other has taken.
    """
    return _most(events, times, tolerance) if matching == "maximum" else _first(events, times, tolerance)


def _most(events: Sequence[float], times: Sequence[float], tolerance: float) -> int:
    replies = sorted(times)
    count = at = 0
    for event in sorted(events):
        while at < len(replies) and replies[at] < event - tolerance:
            at += 1
        if at < len(replies) and replies[at] <= event + tolerance:
            at += 1
            count += 1
    return count


def _first(events: Sequence[float], times: Sequence[float], tolerance: float) -> int:
    waiting = list(times)
    for event in events:
        found = next((time for time in waiting if abs(time - event) <= tolerance), None)
        if found is not None:
            waiting.remove(found)
    return len(times) - len(waiting)


def f1(precision: float, recall: float) -> float:
    """Harmonic mean; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def score(
    items: Sequence[Timed], predictions: Predictions, *, tolerance: float, matching: Matching = "maximum"
) -> Result:
    """Timing F1: of mean precision and mean recall over a subtask's items; the headline is the mean of the three.

    An item without a reply has precision 0. `micro` pools replies and events instead; `item_f1` is the mean of F1 by
    item. `tolerance` in seconds, inclusive.
    """
    samples = tuple(
        _sample(item, [reply.time for reply in predictions[item.key]], tolerance, matching) for item in items
    )
    subsets = {name: _summary(part) for name, part in by_subset(samples, SUBSETS).items()}
    metrics = {
        **{name: mean(part[name] for part in subsets.values()) for name in ("score", "micro", "item_f1")},
        "scored": len(samples),
        "expected": len(samples),
        "unparsable": 0,
        "unit": "items",
        "replies": sum(sample.replies for sample in samples),
        "subsets": subsets,
    }
    return Result(samples, metrics)


def _sample(item: Timed, times: Sequence[float], tolerance: float, matching: Matching) -> Sample:
    matched = matches(item.events, times, tolerance, matching)
    precision, recall = matched / len(times) if times else 0.0, matched / len(item.events)
    detail = {"precision": precision, "recall": recall, "matched": matched, "events": len(item.events)}
    return Sample(item, item.start, f1(precision, recall), len(times), detail)


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    precision, recall = (mean(sample.detail[name] for sample in samples) for name in ("precision", "recall"))
    replies = sum(sample.replies for sample in samples)
    return {
        "score": None if precision is None or recall is None else percent(f1(precision, recall)),
        "precision": percent(precision),
        "recall": percent(recall),
        "micro": percent(_micro(samples)) if samples else None,
        "item_f1": percent(mean(sample.score for sample in samples)),
        "scored": len(samples),
        "expected": len(samples),
        "unparsable": 0,
        "replies": replies,
        "unit": "items",
    }


def _micro(samples: Sequence[Sample]) -> float:
    """F1 of a subtask's pooled matches: twice the matches over replies and events together."""
    matched, events = (sum(sample.detail[name] for sample in samples) for name in ("matched", "events"))
    return 2 * matched / (events + sum(sample.replies for sample in samples))


def parts(sample: Sample) -> tuple[float, float, float]:
    """What a subtask's score is made of: precision, recall, and 1."""
    return sample.detail["precision"], sample.detail["recall"], 1.0


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """A subtask's score (0..1) from summed `parts` [..., 3]."""
    both = sums[..., 0] + sums[..., 1]
    return 2 * sums[..., 0] * sums[..., 1] / (np.where(both > 0, both, 1.0) * sums[..., 2])


def protocol(*, tolerance: float, events: EventRule = "released", matching: Matching = "maximum") -> dict[str, Any]:
    """The choices that a score depends on."""
    return {
        "events": f"{events}: {RULES[events]}",
        "matching": MATCHINGS[matching],
        "tolerance": tolerance,
        "aggregation": "F1 of mean precision and mean recall of a subtask, plain mean over subtasks",
    }
