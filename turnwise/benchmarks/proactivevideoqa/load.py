"""The annotations of ProactiveVideoQA: `<root>/<WEB|EGO|TV|VAD>/{anno.json, videos/}`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from turnwise.benchmarks.items import Item, Loaded, episode_of, grid_over
from turnwise.benchmarks.reading import Annotation, Text, annotation_files, collect, parse, read_list
from turnwise.config import Stream
from turnwise.episodes import Episode, Query, Seconds, Span, Window
from turnwise.errors import UserError

FOLDER = "proactivevideoqa"
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


@dataclass(frozen=True)
class Question(Item):
    """A clip with a question, later user turns (subtitles), and the answers it expects in time."""

    duration: float
    """Seconds, as annotated."""
    queries: tuple[Query, ...]
    windows: tuple[Window, ...]

    @property
    def ends(self) -> float:
        return self.duration

    @property
    def units(self) -> int:
        return len(self.windows)


def load(places: Sequence[Path]) -> Loaded[Question]:
    """The items of annotation files; a folder stands for the `<subset>/anno.json` that it holds.

    Turns are put in time order. Raises UserError for a file that cannot be read, or whose subset is unclear.
    """
    files = annotation_files(places, [f"{subset}/anno.json" for subset in SUBSETS])
    return collect(files, lambda path: _candidates(path, _subset(path)))


def _subset(path: Path) -> str:
    """The subset a file belongs to, from its folder's name or the start of its own."""
    for word in (path.resolve().parent.name, path.stem.partition("_")[0]):
        if word in SUBSETS:
            return word
    raise UserError(f"{path}: subset: neither folder nor file is named {', '.join(SUBSETS)}; call it WEB/anno.json")


def _candidates(path: Path, subset: str) -> Iterator[tuple[str, Callable[[], list[Question]]]]:
    for number, raw in enumerate(read_list(path)):
        name = f"{subset}/{raw.get('question_id', f'number {number}')}"
        yield name, partial(_questions, raw, subset)


def _questions(raw: dict[str, Any], subset: str) -> list[Question]:
    record = parse(_Record, raw)
    question = Question(
        subset,
        record.question_id,
        f"{subset}/videos/{record.video}",
        record.duration,
        tuple(Query(text=turn.content, time=turn.time) for turn in sorted(record.conversation, key=lambda t: t.time)),
        tuple(sorted((answer.window for answer in record.answer), key=lambda window: window.reply[0])),
    )
    return [question]


def episode(item: Question, stream: Stream, duration: float) -> Episode:
    """From 0 to the last reply span's end, within the clip; `duration` is the clip's true length in seconds."""
    limit = min(item.duration, duration)
    grid = grid_over(0.0, max(window.reply[1] for window in item.windows), limit, stream)
    return episode_of(item, grid, item.queries, item.windows)
