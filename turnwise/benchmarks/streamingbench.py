"""StreamingBench: multiple choice about the stream so far (RTVU) and output at the right moment (PO).

Official annotations: `<root>/{questions_real.json, questions_proactive.json}`; videos below `<root>/videos/`. PO is true
streaming (push): the model decides when to speak, the target text is never shown to it, and its first reply counts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

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
    parse,
    percent,
    read_list,
)
from turnwise.config import Stream
from turnwise.episodes import Episode, HistoryTurn, Query

NAME = FOLDER = "streamingbench"
SUBSETS = ("RTVU", "PO")
CONTEXT = 60.0
"""Seconds of video before an RTVU question that are shown, as in the official main table."""
LETTERS = tuple("ABCDEFGH")
GRACE = 4.0
"""Seconds that a PO stream goes on after the target time, as in the official polling."""


def clock(text: str) -> float:
    """`MM:SS`, `H:MM:SS` or `HH:MM:SS` in seconds. Raises ValueError for anything else."""
    match = re.fullmatch(r"(?:(\d+):)?([0-5]?\d):([0-5]\d)", text) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"{text!r} is no time; write HH:MM:SS")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(3600 * hours + 60 * minutes + seconds)


Clock = Annotated[float, BeforeValidator(clock)]


class _Choice(Annotation):
    question: Text
    time_stamp: Clock
    answer: Text
    options: Annotated[tuple[Text, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _answer_is_an_option(self) -> "_Choice":
        letters = LETTERS[: len(self.options)]
        if self.answer not in letters:
            raise ValueError(f"answer: {self.answer!r} is none of {', '.join(letters)}")
        return self


class _Output(Annotation):
    question: Text
    time_stamp: Clock
    ground_truth_time_stamp: Clock
    ground_truth_output: Text

    @model_validator(mode="after")
    def _asked_before_due(self) -> "_Output":
        if self.ground_truth_time_stamp < self.time_stamp:
            raise ValueError("ground_truth_time_stamp must not be before time_stamp")
        return self


class _Entry(Annotation):
    video_path: Text
    questions: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]


@dataclass(frozen=True)
class Asked(Item):
    """A question at a time (seconds): RTVU's with its options, PO's with what to say and when."""

    question: str
    """RTVU: with the options, as it is shown."""
    time: float
    target: str
    """RTVU: the letter; PO: the text that the reply must contain."""
    due: float
    """PO: when to say it; RTVU: the question's time."""


def choice_prompt(question: str, options: Sequence[str]) -> str:
    """A multiple-choice question as the model reads it: the question, then its lettered options, one a line."""
    return "\n".join([question, *options])


def load(root: Path) -> Loaded[Asked]:
    """Both subsets. Item ids count the questions of a video. Raises UserError naming file, record and field."""
    found = [*_asked(root / "questions_real.json", "RTVU"), *_asked(root / "questions_proactive.json", "PO")]
    early = "time_stamp is 0: nothing was shown before the question"
    refused = [item for item in found if item.subset == "RTVU" and not item.time]
    return Loaded(tuple(item for item in found if item not in refused), tuple((item.key, early) for item in refused))


def _asked(path: Path, subset: str) -> Iterator[Asked]:
    asked: dict[str, int] = {}
    for number, raw in enumerate(read_list(path)):
        entry = parse(_Entry, raw, path, f"number {number}")
        video = PurePosixPath(entry.video_path)
        for question in entry.questions:
            asked[video.stem] = asked.get(video.stem, 0) + 1
            yield _item(question, path, subset, f"{video.stem}_{asked[video.stem]}", str(video))


def _item(raw: dict[str, Any], path: Path, subset: str, name: str, clip: str) -> Asked:
    if subset == "PO":
        po = parse(_Output, raw, path, name)
        due = po.ground_truth_time_stamp
        return Asked(subset, name, clip, po.question, po.time_stamp, po.ground_truth_output, due)
    choice = parse(_Choice, raw, path, name)
    text = choice_prompt(choice.question, choice.options)
    return Asked(subset, name, clip, text, choice.time_stamp, choice.answer, choice.time_stamp)


def episode(item: Asked, stream: Stream, duration: float) -> Episode:
    """RTVU: one decision, at the question, after up to `CONTEXT` s of silent history. PO: from the question to `GRACE` s
    past the target, or to the end of the clip (`duration`, seconds).
    """
    if item.time > duration:
        raise ValueError(f"the question comes at {item.time:g} s, after the clip's end ({duration:g} s)")
    if item.subset == "PO":
        end = min(item.due + GRACE, duration)
        return episode_of(item, grid_over(item.time, end, end, stream), [Query(text=item.question, time=item.time)])
    shown = min(item.time, CONTEXT)
    grid = grid_over(0.0, shown, shown, stream)
    grid = grid.model_copy(update={"start": max(0.0, item.time - grid.times[-1])})
    past = list(zip(grid.times, grid.frame_times, strict=True))[:-1]
    last = grid.model_copy(update={"start": past[-1][0] if past else grid.start, "turns": 1})
    history = [HistoryTurn(time=time, frame_times=frames, text=None) for time, frames in past]
    return episode_of(item, last, [Query(text=item.question, time=last.times[-1])], history=history)


def score(items: Sequence[Asked], predictions: Predictions, *, tolerance: float) -> Result:
    """The mean of RTVU's accuracy and PO's joint accuracy, each over all its questions.

    RTVU: the first character of the reply to the question is the answer's letter, as in the official scorer; silence is
    wrong. PO: the first reply is at most `tolerance` seconds from the target time (inclusive) and contains the target text.
    """
    samples = tuple(_sample(item, predictions[item.key], tolerance) for item in items)
    parts = by_subset(samples, SUBSETS)
    subsets = {name: _summary(part) for name, part in parts.items()}
    subsets["PO"]["time"] = percent(mean(float(sample.detail["in_time"]) for sample in parts["PO"]))
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
    unparsable = said is not None and said[:1] not in LETTERS
    return said is not None and said[:1] == item.target, {"answer": item.target, "said": said, "unparsable": unparsable}


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
