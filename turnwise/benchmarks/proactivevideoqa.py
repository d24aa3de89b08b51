"""ProactiveVideoQA (arXiv 2507.09313): PAUC of proactive replies against timed answers, and their repetition rate.

Official layout: `<root>/<WEB|EGO|TV|VAD>/{anno.json, videos/}`. The scorer receives verdicts and asks no judge: `grades`
says which verdicts it needs. Only replies inside a reply span count for PAUC; saying nothing is worth 25.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from turnwise.benchmarks.items import (
    Annotation,
    Item,
    Loaded,
    Predictions,
    Reply,
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
from turnwise.config import BENCHMARK_LEVELS, Stream
from turnwise.episodes import Episode, Query, Seconds, Span, Window
from turnwise.judging import Grade, Verdict
from turnwise.rewards.pauc import pauc

NAME = FOLDER = "proactivevideoqa"
SUBSETS = ("WEB", "EGO", "TV", "VAD")


class _Said(Annotation):
    content: Text
    time: Seconds


class _Answer(Annotation):
    content: Text
    related_timespan: Span
    reply_timespan: Span

    @property
    def window(self) -> Window:
        return Window(text=self.content, related=self.related_timespan, reply=self.reply_timespan)

    @model_validator(mode="after")
    def _is_a_window(self) -> "_Answer":
        for name, (start, end) in (("related", self.related_timespan), ("reply", self.reply_timespan)):
            if end <= start:
                raise ValueError(f"{name}_timespan [{start}, {end}] must end after it starts")
        return self


class _Record(Annotation):
    video: Text
    question_id: Text
    conversation: Annotated[tuple[_Said, ...], Field(min_length=1)]
    answer: Annotated[tuple[_Answer, ...], Field(min_length=1)]
    duration: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _in_time_order(self) -> "_Record":
        for name, times in (
            ("conversation", [turn.time for turn in self.conversation]),
            ("answer", [answer.reply_timespan[0] for answer in self.answer]),
        ):
            if times != sorted(times):
                raise ValueError(f"{name}: times must be in order, got {times}")
        return self


@dataclass(frozen=True)
class Question(Item):
    """A clip with a question, later user turns (subtitles), and the answers it expects in time."""

    duration: float
    """Seconds, as annotated."""
    queries: tuple[Query, ...]
    windows: tuple[Window, ...]


def load(root: Path) -> Loaded[Question]:
    """All four subsets below `root`. Raises UserError naming file, record and field."""
    return only_once(item for subset in SUBSETS for item in _questions(root / subset / "anno.json", subset))


def _questions(path: Path, subset: str) -> Iterator[Question]:
    for number, raw in enumerate(read_list(path)):
        record = parse(_Record, raw, path, str(raw.get("question_id", number)))
        yield Question(
            subset,
            record.question_id,
            f"{subset}/videos/{record.video}",
            record.duration,
            tuple(Query(text=turn.content, time=turn.time) for turn in record.conversation),
            tuple(answer.window for answer in record.answer),
        )


def episode(item: Question, stream: Stream, duration: float) -> Episode:
    """From 0 to the last reply span's end, within the clip; `duration` is the clip's true length in seconds."""
    limit = min(item.duration, duration)
    grid = grid_over(0.0, max(window.reply[1] for window in item.windows), limit, stream)
    return episode_of(item, grid, item.queries, item.windows)


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
    said = [list(dict.fromkeys(reply.text for reply in replies[:i])) for i in range(len(replies))]
    return [_repeat(item, said[i], reply.text) for i, reply in enumerate(replies) if i not in first]


def _repeat(item: Question, said: Sequence[str], text: str) -> Grade | float:
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


def _sample(item: Question, replies: Sequence[Reply], verdict: Callable[[Grade], Verdict], omega: float) -> Sample:
    turns = [_turn(item, window, replies, verdict, omega) for window in item.windows]
    repeats = [verdict(found).score if isinstance(found, Grade) else found for found in _repeats(item, replies)]
    detail = {
        "turns": [turn.value for turn in turns],
        "repeats": sum(score for score in repeats if score is not None),
        "repeats_of": len(repeats) - repeats.count(None),
        "unparsable": sum(turn.unparsable for turn in turns) + repeats.count(None),
    }
    value = mean(turn.value for turn in turns if turn.value is not None)
    return Sample(item, item.queries[0].time, value, len(replies), detail)


def score(
    items: Sequence[Question], predictions: Predictions, verdict: Callable[[Grade], Verdict], *, omega: float
) -> Result:
    """PAUC and repetition rate.

    The headline of PAUC is the plain mean over the four subsets of the mean over all their turns; that of repetition
    pools the counted replies of all subsets, since most subsets have few, and is None where there is none.

    `verdict` gives the judgement of each of `grades(items, predictions)`. A point without a verdict is dropped and
    counted; a turn without any is not scored.
    """
    samples = tuple(_sample(item, predictions[item.key], verdict, omega) for item in items)
    subsets = {name: _summary(part) for name, part in by_subset(samples, SUBSETS).items()}
    whole = _summary(samples)
    metrics = {
        "score": mean(part["score"] for part in subsets.values()),
        "turn_weighted": whole["score"],
        **{name: whole[name] for name in ("scored", "expected", "unparsable", "replies", "unit")},
        "repetition": whole["repetition"],
        "repetition_of": whole["repetition_of"],
        "repetition_subsets": mean(part["repetition"] for part in subsets.values() if part["repetition"] is not None),
        "subsets": subsets,
    }
    return Result(samples, metrics)


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    turns = [value for sample in samples for value in sample.detail["turns"]]
    scored = [value for value in turns if value is not None]
    repeats, counted = (sum(sample.detail[name] for sample in samples) for name in ("repeats", "repeats_of"))
    return {
        "score": percent(mean(scored)),
        "video_mean": percent(mean(sample.score for sample in samples if sample.score is not None)),
        "repetition": 100 * repeats / counted if counted else None,
        "repetition_of": counted,
        "scored": len(scored),
        "expected": len(turns),
        "unparsable": sum(sample.detail["unparsable"] for sample in samples),
        "replies": sum(sample.replies for sample in samples),
        "unit": "turns",
    }
