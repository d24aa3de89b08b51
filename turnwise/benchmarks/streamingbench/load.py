"""The annotations of StreamingBench, as its repository has them (JSON) and as the hub does (CSV), and their episodes.

A question with a ground truth output is Proactive Output (PO), any other is multiple choice (RTVU).
"""

import ast
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from turnwise.benchmarks.items import Item, Loaded, asked_episode, episode_of, grid_over
from turnwise.benchmarks.parsing import LETTERS
from turnwise.benchmarks.reading import Annotation, Refusal, Text, annotation_files, collect, parse, read_list
from turnwise.config import Stream
from turnwise.episodes import Episode, Query
from turnwise.errors import UserError

FOLDER = "streamingbench"
SUBSETS = ("RTVU", "PO")
FILES = ("questions_real.json", "questions_proactive.json")
CONTEXT = 60.0
"""Seconds of video before an RTVU question that are shown, as in the official main table."""
GRACE = 4.0
"""Seconds that a PO stream goes on after the target time, as in the official polling."""
POLL = '{question} Is it the right time to output "{target}"? You can only answer yes or no.'
"""What polling asks at each second: it gives the target away."""


def clock(text: str) -> float:
    """`MM:SS`, `H:MM:SS` or `HH:MM:SS` in seconds. Raises ValueError for anything else."""
    match = re.fullmatch(r"(?:(\d+):)?([0-5]?\d):([0-5]\d)", text) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"{text!r} is no time; write HH:MM:SS")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(3600 * hours + 60 * minutes + seconds)


def listed(options: Any) -> Any:
    """Options that a CSV holds as the text of a list, as a list; all else as it is. Raises ValueError."""
    if not isinstance(options, str):
        return options
    try:
        return ast.literal_eval(options)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"{options[:40]!r} is no list of texts") from None


Clock = Annotated[float, BeforeValidator(clock)]


class _Choice(Annotation):
    question: Text
    time_stamp: Clock
    task_type: str = ""
    answer: Text
    options: Annotated[tuple[Text, ...], Field(min_length=2), BeforeValidator(listed)]

    @model_validator(mode="after")
    def _answer_is_an_option(self) -> "_Choice":
        letters = LETTERS[: len(self.options)]
        if self.answer not in tuple(letters):
            raise ValueError(f"answer: {self.answer!r} is none of {', '.join(letters)}")
        return self


class _Output(Annotation):
    question: Text
    time_stamp: Clock
    task_type: str = ""
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
    options: tuple[str, ...] = ()
    task: str = ""

    @property
    def ends(self) -> float:
        return self.time if self.subset == "RTVU" else self.due + GRACE

    @property
    def asked(self) -> float | None:
        return self.time if self.subset == "RTVU" else None

    @property
    def parroted(self) -> str:
        quoted = re.search(r"""output ["'](.+?)["']\.?\s*$""", self.question)
        return quoted[1] if quoted else "."

    @property
    def oddity(self) -> str | None:
        if self.subset == "PO" and self.target not in self.parroted != ".":
            return f"the question asks to output {self.parroted!r}, which does not hold {self.target!r}"
        return None


def choice_prompt(question: str, options: Sequence[str]) -> str:
    """A multiple-choice question as the model reads it: the question, then its lettered options, one a line."""
    return "\n".join([question, *options])


def load(places: Sequence[Path]) -> Loaded[Asked]:
    """The questions of annotation files (JSON or CSV); a folder stands for the two JSON files that it holds.

    RTVU ids number the questions of a video, PO ids name the times asked and due, so that the 250 questions and a subset
    of them have the same ids. Raises UserError for a file that cannot be read.
    """
    files = annotation_files(places, FILES)
    return collect(files, lambda path: _rows(path) if path.suffix.lower() == ".csv" else _entries(path))


Candidate = tuple[str, Callable[[], list[Asked]]]


def _entries(path: Path) -> Iterator[Candidate]:
    asked: Counter[str] = Counter()
    for number, raw in enumerate(read_list(path)):
        try:
            entry = parse(_Entry, raw)
        except Refusal as refusal:
            yield f"{path.name} number {number}", partial(_refuse, refusal)
            continue
        video = PurePosixPath(entry.video_path)
        stem = re.sub(r"_(real|proactive)$", "", video.stem)
        for question in entry.questions:
            asked[stem] += 1
            name = f"{stem}_{asked[stem]}"
            yield name, partial(_item, question, stem, str(asked[stem]), str(video))


def _refuse(refusal: Refusal) -> list[Asked]:
    raise refusal


def _rows(path: Path) -> Iterator[Candidate]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; put the benchmark's official annotation there") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not valid CSV: {error}; fetch the file again") from None
    if not rows or "question_id" not in rows[0]:
        raise UserError(f"{path}: question_id: there is no such column, or no row; fetch the file again")
    for row in rows:
        yield str(row["question_id"]), partial(_row, row)


def _row(row: dict[str, Any]) -> list[Asked]:
    match = re.search(r"(sample_\d+)_(\d+)$", str(row["question_id"]))
    if not match:
        raise Refusal("question_id: does not end with sample_<video>_<question>")
    return _item({key: value for key, value in row.items() if value}, match[1], match[2], f"{match[1]}/video.mp4")


def _item(raw: dict[str, Any], video: str, number: str, clip: str) -> list[Asked]:
    if "ground_truth_output" in raw or "ground_truth_time_stamp" in raw:
        po = parse(_Output, raw)
        due = po.ground_truth_time_stamp
        name = f"{video}@{po.time_stamp:04.0f}-{due:04.0f}"
        asked = (po.question, po.time_stamp, po.ground_truth_output, due)
        return [Asked("PO", name, clip, *asked, task=po.task_type)]
    choice = parse(_Choice, raw)
    time = choice.time_stamp
    if not time:
        raise Refusal("time_stamp is 0: nothing was shown before the question")
    text, options = choice_prompt(choice.question, choice.options), choice.options
    return [Asked("RTVU", f"{video}_{number}", clip, text, time, choice.answer, time, options, choice.task_type)]


def episode(item: Asked, stream: Stream, duration: float, context: float | None = CONTEXT) -> Episode:
    """RTVU: one decision, at the question, after the `context` s before it (None: all) as silent history. PO: from the
    question to `GRACE` s past the target, or to the end of the clip (`duration`, seconds).
    """
    if item.time > duration:
        raise ValueError(f"the question comes at {item.time:g} s, after the clip's end ({duration:g} s)")
    if item.subset == "RTVU":
        return asked_episode(item, item.question, item.time, min(item.time, context or item.time), stream)
    end = min(item.due + GRACE, duration)
    return episode_of(item, grid_over(item.time, end, end, stream), [Query(text=item.question, time=item.time)])


def poll_times(item: Asked, duration: float) -> list[float]:
    """When official polling asks about a PO item: each second from one after the question to `GRACE` s past the target."""
    last = min(item.due + GRACE, duration)
    return [item.time + second for second in range(1, int(last - item.time + 1e-9) + 1)]


def poll_episode(item: Asked, time: float, stream: Stream, *, asking: bool) -> Episode:
    """One decision at `time`, shown the stream since the question: whether it is time (`asking`), or what to say."""
    text = POLL.format(question=item.question, target=item.target) if asking else item.question
    return asked_episode(item, text, time, time - item.time, stream)
