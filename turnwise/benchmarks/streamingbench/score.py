"""RTVU by the first letter of a reply, Proactive Output by the time and the text of the first one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.benchmarks.items import Predictions, Reply, Result, Sample, by_subset, mean, percent
from turnwise.benchmarks.parsing import LETTERS, letter_of
from turnwise.benchmarks.streamingbench.load import SUBSETS, Asked


def score(items: Sequence[Asked], predictions: Predictions, *, tolerance: float) -> Result:
    """The mean of RTVU's accuracy and PO's joint accuracy, each over all its questions.

    RTVU: the first character of the reply to the question is the answer's letter, as in the official scorer; silence is
    wrong. `robust` reads one clear answer instead. PO: the first reply is at most `tolerance` seconds from the target
    time, inclusive (`time`), contains the target text (`answer`), or both (the score).
    """
    samples = tuple(_sample(item, predictions[item.key], tolerance) for item in items)
    parts = by_subset(samples, SUBSETS)
    subsets = {name: _summary(part) for name, part in parts.items()}
    subsets["PO"] |= {
        "time": percent(mean(float(sample.detail["in_time"]) for sample in parts["PO"])),
        "answer": percent(mean(float(sample.detail["said"]) for sample in parts["PO"])),
    }
    subsets["RTVU"] |= {
        "robust": percent(mean(float(sample.detail["robust"]) for sample in parts["RTVU"])),
        "tasks": _tasks(items, samples),
    }
    counts = {
        name: sum(part[name] for part in subsets.values()) for name in ("scored", "expected", "unparsable", "replies")
    }
    headline = mean(part["score"] for part in subsets.values())
    return Result(samples, {"score": headline, **counts, "unit": "questions", "subsets": subsets})


def _sample(item: Asked, replies: Sequence[Reply], tolerance: float) -> Sample:
    score, detail = _output(item, replies, tolerance) if item.subset == "PO" else _choice(item, replies)
    return Sample(item, item.time, float(score), len(replies), detail)


def _choice(item: Asked, replies: Sequence[Reply]) -> tuple[bool, dict[str, Any]]:
    """Only a reply to the question counts, not one before it; float times are equal to within a microsecond."""
    said = next((reply.text for reply in replies if reply.time > item.time - 1e-6), None)
    detail = {
        "answer": item.target,
        "said": said,
        "robust": said is not None and letter_of(said, item.options) == item.target,
        "unparsable": said is not None and said[:1] not in tuple(LETTERS),
    }
    return said is not None and said[:1] == item.target, detail


def _output(item: Asked, replies: Sequence[Reply], tolerance: float) -> tuple[bool, dict[str, Any]]:
    first = replies[0] if replies else None
    in_time = first is not None and abs(first.time - item.due) <= tolerance
    said = first is not None and item.target in first.text
    return in_time and said, {"in_time": in_time, "said": said, "unparsable": False}


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "score": percent(mean(sample.score for sample in samples)),
        "scored": len(samples),
        "expected": len(samples),
        "unparsable": sum(sample.detail["unparsable"] for sample in samples),
        "replies": sum(sample.replies for sample in samples),
        "unit": "questions",
    }


def _tasks(items: Sequence[Asked], samples: Sequence[Sample]) -> dict[str, float | None]:
    """RTVU's accuracy, percent, by the question's `task_type`."""
    scores: dict[str, list[float | None]] = {}
    for item, sample in zip(items, samples, strict=True):
        if item.subset == "RTVU":
            scores.setdefault(item.task, []).append(sample.score)
    return {task: percent(mean(values)) for task, values in sorted(scores.items())}


def parts(sample: Sample) -> tuple[float, float]:
    """What a subset's score is a ratio of: right answers, and questions."""
    return sample.score or 0.0, 1.0


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """A subset's score (0..1) from summed `parts` [..., 2]."""
    return sums[..., 0] / sums[..., 1]
