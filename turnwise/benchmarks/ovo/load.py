"""The annotation of OVO-Bench, `ovo_bench_new.json`: all twelve tasks, as records; videos below `videos/`."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from turnwise.benchmarks.items import Item, Loaded
from turnwise.benchmarks.reading import Annotation, Refusal, Text, annotation_files, collect, parse, read_list
from turnwise.episodes import Seconds

FOLDER = "ovobench"
FILE = "ovo_bench_new.json"
BACKWARD = ("EPM", "ASI", "HLD")
REALTIME = ("OCR", "ACR", "ATR", "STU", "FPD", "OJR")
FORWARD = ("CRR", "REC", "SSR")
TASKS = BACKWARD + REALTIME + FORWARD
Times = Annotated[tuple[Seconds, ...], Field(min_length=1)]
Natural = Annotated[int, Field(ge=0)]


class _Record(Annotation):
    id: Natural
    task: str
    video: Text

    @property
    def clip(self) -> str:
        """Path of the video, relative to the benchmark's folder."""
        return f"videos/{self.video}"


class Choice(_Record):
    """A multiple-choice question at a time; `gt` is the index of the right option, which is what the scorer uses."""

    realtime: Seconds
    question: Text
    answer: Text
    options: Annotated[tuple[Text, ...], Field(min_length=2)]
    gt: Natural

    @model_validator(mode="after")
    def _right_option(self) -> "Choice":
        if self.gt >= len(self.options):
            raise ValueError(f"gt: {self.gt} is no index of the {len(self.options)} options")
        return self

    @property
    def oddity(self) -> str | None:
        """Where the text of the answer and the options do not agree with `gt`."""
        if self.answer != self.options[self.gt]:
            other = " but that of another option" if self.answer in self.options else ""
            return f"the answer is not the text of option {self.gt}{other}"
        return "two options are the same" if len(set(self.options)) < len(self.options) else None


class CrrProbe(Annotation):
    """Whether the clue was seen by `realtime`: 1 or 0."""

    realtime: Seconds
    type: Literal[0, 1]


class SsrProbe(CrrProbe):
    """Whether `step` is being done at `realtime`."""

    step: Text


class RecProbe(Annotation):
    """How often it happened by `realtime`."""

    realtime: Seconds
    count: Natural


class Crr(_Record):
    """A question whose answer is not to be seen before the clue."""

    question: Text
    ask_time: Seconds
    clue_time: Seconds
    test_info: Annotated[tuple[CrrProbe, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _asked_before_clue(self) -> "Crr":
        if self.clue_time < self.ask_time:
            raise ValueError(f"clue_time: {self.clue_time:g} s is before ask_time, {self.ask_time:g} s")
        return self


class Rec(_Record):
    """An action that is counted."""

    activity: Text
    start_times: Times
    end_times: Times
    test_info: Annotated[tuple[RecProbe, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _paired(self) -> "Rec":
        if len(self.start_times) != len(self.end_times):
            raise ValueError(f"end_times: {len(self.end_times)} for {len(self.start_times)} start_times")
        return self


class Ssr(_Record):
    """A tutorial whose steps are followed."""

    tutorial: Text
    all_steps: tuple[Text, ...]
    start_time: Times
    end_time: Times
    test_info: Annotated[tuple[SsrProbe, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _paired(self) -> "Ssr":
        if not len(self.all_steps) == len(self.start_time) == len(self.end_time):
            raise ValueError(
                f"all_steps: {len(self.all_steps)} for {len(self.start_time)} start_time, {len(self.end_time)} end_time"
            )
        return self


Record = Choice | Crr | Rec | Ssr
MODELS: dict[str, type[Record]] = {"CRR": Crr, "REC": Rec, "SSR": Ssr}
AnyItem = TypeVar("AnyItem", bound=Item)


def load_records(
    places: Sequence[Path], make: Callable[[Record], Sequence[AnyItem]], tasks: Sequence[str] = TASKS
) -> Loaded[AnyItem]:
    """The items that `make` makes of the records of `tasks`; the others are not counted.

    Raises UserError for a file that cannot be read.
    """
    files = annotation_files(places, [FILE])
    return collect(files, lambda path: _candidates(path, make, tasks))


def _candidates(
    path: Path, make: Callable[[Record], Sequence[AnyItem]], tasks: Sequence[str]
) -> Iterator[tuple[str, Callable[[], Sequence[AnyItem]]]]:
    for number, raw in enumerate(read_list(path)):
        if raw.get("task") in tasks or raw.get("task") not in TASKS:
            name = "/".join(str(raw[key]) for key in ("task", "id") if key in raw) or f"number {number}"
            yield name, partial(_made, make, raw)


def _made(make: Callable[[Record], Sequence[AnyItem]], raw: dict[str, Any]) -> Sequence[AnyItem]:
    return make(_record(raw))


def _record(raw: dict[str, Any]) -> Record:
    if raw.get("task") not in TASKS:
        raise Refusal(f"task: {raw.get('task')!r} is none of {', '.join(TASKS)}")
    return parse(MODELS.get(raw["task"], Choice), raw)


def spaced(name: str) -> str:
    """`AssembleDesktopPC` as `assemble desktop pc`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()
