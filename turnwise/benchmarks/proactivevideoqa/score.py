"""PAUC of proactive replies against timed answers, and their repetition rate (arXiv 2507.09313).

The scorer receives verdicts and asks no judge: `grades` says which verdicts it needs. Only replies inside a reply span
count for PAUC; saying nothing is worth 25.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.benchmarks.items import Predictions, Reply, Result, Sample, by_subset, mean, percent
from turnwise.benchmarks.proactivevideoqa.load import SUBSETS, Question
from turnwise.config import BENCHMARK_LEVELS
from turnwise.episodes import Window
from turnwise.judging import Grade, Verdict
from turnwise.rewards.pauc import pauc


def _points(item: Question, window: Window, replies: Sequence[Reply]) -> list[tuple[float, Grade]]:
    """(time, what to judge) of the replies in a window: all distinct texts so far, against its answer."""
    said: list[str] = []
    points = []
    for reply in replies:
        if window.reply[0] <= reply.time <= window.reply[1] and reply.text not in said:
            said.append(reply.text)
            grade = Grade("level", item.queries[0].text, window.text, " ".join(said), BENCHMARK_LEVELS)
            points.append((reply.time, grade))
    return points


def _repeats(item: Question, replies: Sequence[Reply]) -> list[Grade | float]:
    """Of the replies that the repetition rate counts, all but the first one in each window: what to judge, or the answer.

    The answer is known, 0 or 1, where nothing was said before and where the very same was.
    """
    spans = [window.reply for window in item.windows]
    first = {next((i for i, reply in enumerate(replies) if a <= reply.time <= b), None) for a, b in spans}
    said: dict[str, None] = {}
    found = []
    for i, reply in enumerate(replies):
        if i not in first:
            found.append(_repeat(item, said, reply.text))
        said[reply.text] = None
    return found


def _repeat(item: Question, said: Collection[str], text: str) -> Grade | float:
    if text in said or not said:
        return float(text in said)
    earlier = "\n".join(" ".join(before.split()) for before in said)
    return Grade("repeat", item.queries[0].text, earlier, text, levels=2)


def grades(items: Sequence[Question], predictions: Predictions) -> list[Grade]:
    """Every verdict that `score` will look up, once each, in order of first use."""
    wanted: dict[Grade, None] = {}
    for item in items:
        replies = predictions[item.key]
        for window in item.windows:
            wanted.update((grade, None) for _, grade in _points(item, window, replies))
        wanted.update((grade, None) for grade in _repeats(item, replies) if isinstance(grade, Grade))
    return list(wanted)


def drop_late(points: Sequence[tuple[float, float]], related_end: float) -> list[tuple[float, float]]:
    """The official late filter on (time, score) points in time order.

    A point after the related span that scores below the last point inside it is removed.
    """
    inside = [score for time, score in points if time <= related_end]
    return [(time, score) for time, score in points if not inside or time <= related_end or score >= inside[-1]]


@dataclass(frozen=True)
class _Turn:
    value: float | None
    """PAUC 0..1; None where replies stood in the window and none of them could be judged."""
    unparsable: int


def _turn(
    item: Question, window: Window, replies: Sequence[Reply], verdict: Callable[[Grade], Verdict], omega: float
) -> _Turn:
    points = [(time, verdict(grade).score) for time, grade in _points(item, window, replies)]
    scored = [(time, score) for time, score in points if score is not None]
    missing = len(points) - len(scored)
    if points and not scored:
        return _Turn(None, missing)
    return _Turn(pauc(drop_late(scored, window.related[1]), window.reply, BENCHMARK_LEVELS - 1, omega), missing)


def _sample(
    item: Question, replies: Sequence[Reply], verdict: Callable[[Grade], Verdict], omega: float, drop_items: bool
) -> Sample:
    turns = [_turn(item, window, replies, verdict, omega) for window in item.windows]
    counted = _repeats(item, replies)
    repeats = [verdict(found).score if isinstance(found, Grade) else found for found in counted]
    missing = sum(turn.unparsable for turn in turns) + repeats.count(None)
    if drop_items and missing:
        turns, repeats = [_Turn(None, 0) for _ in turns], []
    detail = {
        "turns": [turn.value for turn in turns],
        "repeats": sum(score for score in repeats if score is not None),
        "repeats_of": len(repeats) - repeats.count(None),
        "exact_repeats": counted.count(1.0),
        "exact_repeats_of": len(counted),
        "unparsable": missing,
    }
    value = mean(turn.value for turn in turns if turn.value is not None)
    return Sample(item, item.queries[0].time, value, len(replies), detail)


def score(
    items: Sequence[Question],
    predictions: Predictions,
    verdict: Callable[[Grade], Verdict],
    *,
    omega: float,
    drop_items: bool = False,
) -> Result:
    """PAUC and repetition rate.

    The headline of PAUC is the plain mean over the four subsets of the mean over all their turns; that of repetition
    pools the counted replies of all subsets, since most subsets have few, and is None where there is none.

    `verdict` gives the judgement of each of `grades(items, predictions)`. A point without a verdict is dropped and
    counted; a turn without any is not scored, with `drop_items` neither is any other of its item.
    """
    samples = tuple(_sample(item, predictions[item.key], verdict, omega, drop_items) for item in items)
    subsets = {name: _summary(part) for name, part in by_subset(samples, SUBSETS).items()}
    whole = _summary(samples)
    metrics = {
        "score": mean(part["score"] for part in subsets.values()),
        "turn_weighted": whole["score"],
        **{name: whole[name] for name in ("scored", "expected", "unparsable", "replies", "unit")},
        **{name: whole[name] for name in ("repetition", "repetition_of", "repetition_exact")},
        "repetition_subsets": mean(part["repetition"] for part in subsets.values() if part["repetition"] is not None),
        "subsets": subsets,
    }
    return Result(samples, metrics)


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    turns = [value for sample in samples for value in sample.detail["turns"]]
    scored = [value for value in turns if value is not None]
    repeats, counted, exact, later = (
        sum(sample.detail[name] for sample in samples)
        for name in ("repeats", "repeats_of", "exact_repeats", "exact_repeats_of")
    )
    return {
        "score": percent(mean(scored)),
        "video_mean": percent(mean(sample.score for sample in samples if sample.score is not None)),
        "repetition": 100 * repeats / counted if counted else None,
        "repetition_of": counted,
        "repetition_exact": 100 * exact / later if later else None,
        "scored": len(scored),
        "expected": len(turns),
        "unparsable": sum(sample.detail["unparsable"] for sample in samples),
        "replies": sum(sample.replies for sample in samples),
        "unit": "turns",
    }


def parts(sample: Sample) -> tuple[float, float]:
    """What a subset's score is a ratio of: the sum of PAUC over turns, and their number."""
    scored = [value for value in sample.detail["turns"] if value is not None]
    return sum(scored), len(scored)


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """A subset's score (0..1) from summed `parts` [..., 2]."""
    return sums[..., 0] / sums[..., 1]
