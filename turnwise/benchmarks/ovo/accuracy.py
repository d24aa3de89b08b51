"""OVO-Bench's accuracy: nine multiple-choice tasks, and the probes of three forward tasks, each asked at its time.

Every answer is read twice: `official`, as the released scorer reads it, and `strict`, which wants one clear answer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.benchmarks.items import (
    Item,
    Loaded,
    Predictions,
    Reply,
    Result,
    Sample,
    asked_episode,
    by_subset,
    mean,
    percent,
)
from turnwise.benchmarks.ovo.load import (
    BACKWARD,
    FOLDER,
    FORWARD,
    REALTIME,
    TASKS,
    Choice,
    Crr,
    Rec,
    Record,
    Ssr,
    load_records,
    spaced,
)
from turnwise.benchmarks.parsing import LETTERS, letter_of, number_of, yes_or_no
from turnwise.config import Stream
from turnwise.episodes import Episode

NAME = "ovo_bench"
SUBSETS = TASKS
GROUPS = (BACKWARD, REALTIME, FORWARD)
"""The headline is the mean over groups of the mean over the subsets of a group."""
CATEGORIES = dict(zip(("backward", "realtime", "forward"), GROUPS, strict=True))
PAST_END = 1.0
"""Seconds that a probe may come after the clip's end, for annotations that are rounded up."""
FIRST = 1e-3
"""Where a probe at 0 s is asked: it sees the first frame."""

__all__ = ["FOLDER", "GROUPS", "NAME", "SUBSETS", "Probe", "episode", "load", "parts", "protocol", "score", "share"]


@dataclass(frozen=True)
class Probe(Item):
    """One question at one time: a multiple choice, or one probe of a forward record."""

    record: int
    """Id of the record."""
    question: str
    """As it is put to a policy."""
    time: float
    kind: Literal["letter", "count", "yes_no"]
    target: str
    """`B`, `3`, `Yes`."""
    options: tuple[str, ...] = ()
    odd: str | None = field(default=None, compare=False)

    @property
    def ends(self) -> float:
        return self.time

    @property
    def asked(self) -> float | None:
        return self.time

    @property
    def wants(self) -> Literal["letter", "count", "yes_no"]:
        return self.kind

    @property
    def oddity(self) -> str | None:
        return self.odd


def load(places: Sequence[Path]) -> Loaded[Probe]:
    """The probes of annotation files, or of the `ovo_bench_new.json` of a folder; a multiple choice is one probe.

    Raises UserError for a file that cannot be read.
    """
    return load_records(places, _probes)


def _probes(record: Record) -> list[Probe]:
    if isinstance(record, Choice):
        lettered = [f"{letter}. {option}" for letter, option in zip(LETTERS, record.options, strict=False)]
        question = "\n".join([record.question, *lettered, "Answer with the letter of the right option only."])
        where = (record.task, str(record.id), record.clip, record.id)
        return [Probe(*where, question, record.realtime, "letter", LETTERS[record.gt], record.options, record.oddity)]
    return [
        Probe(record.task, f"{record.id}_{number}", record.clip, record.id, *asked)
        for number, asked in enumerate(_asked(record))
    ]


def _asked(record: Crr | Rec | Ssr) -> list[tuple[str, float, Literal["count", "yes_no"], str]]:
    """(question, time, kind, target) of each probe."""
    if isinstance(record, Rec):
        question = f"How many times has this happened so far: {record.activity}? Answer with a number only."
        return [(question, probe.realtime, "count", str(probe.count)) for probe in record.test_info]
    said = ("No", "Yes")
    if isinstance(record, Crr):
        question = f"{record.question}\nDoes the video so far show the answer? Answer Yes or No only."
        return [(question, probe.realtime, "yes_no", said[probe.type]) for probe in record.test_info]
    tutorial = spaced(record.tutorial)
    asks = "Is this step of {} being carried out right now: {}? Answer Yes or No only."
    return [(asks.format(tutorial, p.step), p.realtime, "yes_no", said[p.type]) for p in record.test_info]


def episode(item: Probe, stream: Stream, duration: float, context: float | None = None) -> Episode:
    """One decision, at the probe's time, after the `context` seconds before it (None: all) as silent history."""
    if item.time > duration + PAST_END:
        raise ValueError(f"the question comes at {item.time:g} s, after the clip's end ({duration:g} s)")
    time = max(FIRST, min(item.time, duration))
    return asked_episode(item, item.question, time, min(time, context or time), stream)


def official(probe: Probe, response: str) -> bool:
    """As the released scorer reads it: the letter anywhere, all digits joined, `Yes` or `No` anywhere (or `Y`, `N`)."""
    if probe.kind == "count":
        return "".join(re.findall(r"\d+", response)) == probe.target
    return probe.target in response or (probe.kind == "yes_no" and response == probe.target[0])


def strict(probe: Probe, response: str) -> bool | None:
    """Whether the one clear answer of a response is right; None where there is no such answer."""
    read: dict[str, Callable[[], str | int | None]] = {
        "letter": lambda: letter_of(response, probe.options),
        "count": lambda: number_of(response),
        "yes_no": lambda: yes_or_no(response),
    }
    answer = read[probe.kind]()
    return None if answer is None else str(answer) == probe.target


def score(items: Sequence[Probe], predictions: Predictions) -> Result:
    """Accuracy by the `official` reading: mean over the probes of a task, over the tasks of a category, over the three.

    `items` is the same with the mean over the probes of each record first, as the paper writes it; `strict` is the
    headline by the strict reading; `tasks` the plain mean over the twelve tasks. No response is wrong; a response that
    `strict` cannot read is counted as unparsable.
    """
    samples = tuple(_sample(item, predictions[item.key]) for item in items)
    subsets = {name: _summary(part) for name, part in by_subset(samples, SUBSETS).items()}
    categories = {
        name: {column: mean(subsets[task][column] for task in tasks) for column in ("score", "items", "strict")}
        for name, tasks in CATEGORIES.items()
    }
    metrics = {
        **{column: mean(part[column] for part in categories.values()) for column in ("score", "items", "strict")},
        "tasks": mean(part["score"] for part in subsets.values()),
        **{
            name: sum(part[name] for part in subsets.values())
            for name in ("scored", "expected", "unparsable", "replies")
        },
        "unit": "probes",
        "categories": categories,
        "subsets": subsets,
    }
    return Result(samples, metrics)


def _sample(item: Probe, replies: Sequence[Reply]) -> Sample:
    said = replies[0].text if replies else None
    read = None if said is None else strict(item, said)
    detail = {
        "record": item.record,
        "said": said,
        "target": item.target,
        "strict": bool(read),
        "unparsable": said is not None and read is None,
    }
    return Sample(item, item.time, float(said is not None and official(item, said)), len(replies), detail)


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    records: dict[int, list[float | None]] = {}
    for sample in samples:
        records.setdefault(sample.detail["record"], []).append(sample.score)
    return {
        "score": percent(mean(sample.score for sample in samples)),
        "items": percent(mean(mean(scores) for scores in records.values())),
        "strict": percent(mean(float(sample.detail["strict"]) for sample in samples)),
        "scored": len(samples),
        "expected": len(samples),
        "unparsable": sum(sample.detail["unparsable"] for sample in samples),
        "replies": sum(sample.replies for sample in samples),
        "unit": "probes",
    }


def parts(sample: Sample) -> tuple[float, float]:
    """What a task's score is a ratio of: right answers, and probes."""
    return sample.score or 0.0, 1.0


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """A task's score (0..1) from summed `parts` [..., 2]."""
    return sums[..., 0] / sums[..., 1]


def protocol() -> dict[str, Any]:
    """The choices that a score depends on."""
    return {
        "parsing": "official: the letter anywhere; all digits joined; Yes or No anywhere. strict: one clear answer",
        "aggregation": "mean over probes of a task, over tasks of a category, over three categories; no response is wrong",
    }
