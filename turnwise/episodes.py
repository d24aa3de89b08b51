"""What a policy is asked and what is expected of it: episodes and their JSON Lines form.

All times are seconds from the start of the clip. A turn t = 1..T shows its frames and then takes its action at the
decision time; the last frame shown is the one at the decision time, so an action never knows the future.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from turnwise.errors import UserError
from turnwise.files import write_jsonl

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Span = tuple[Seconds, Seconds]
SUBTITLE = "Subtitle:"
"""How a user turn begins that shows a subtitle and asks nothing (ProactiveVideoQA's TV subset)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Query(_Frozen):
    """Text the user says at a time; it is shown in the first turn, given or decided, whose time is not before it."""

    text: Annotated[str, Field(min_length=1)]
    time: Seconds


class Window(_Frozen):
    """An expected answer. `related`: when its evidence is on screen. `reply`: when a reply counts (both ends inclusive)."""

    text: Annotated[str, Field(min_length=1)]
    related: Span
    reply: Span

    @model_validator(mode="after")
    def _ordered(self) -> "Window":
        for name in ("related", "reply"):
            start, end = getattr(self, name)
            if end <= start:
                raise ValueError(f"{name} span [{start}, {end}] must end after it starts")
        return self


class Grid(_Frozen):
    """The decision times, fixed before the roll-out: T turns of `frames_per_turn` frames, one each `frame_interval` s."""

    start: Seconds = 0.0
    frame_interval: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    frames_per_turn: Annotated[int, Field(ge=1)] = 1
    turns: Annotated[int, Field(ge=1, le=100_000)]

    @property
    def step(self) -> float:
        """Seconds from one decision to the next."""
        return self.frame_interval * self.frames_per_turn

    @property
    def times(self) -> tuple[float, ...]:
        """Decision times [T]."""
        step = self.step
        return tuple(self.start + step * t for t in range(1, self.turns + 1))

    @property
    def frame_times(self) -> tuple[tuple[float, ...], ...]:
        """Times of the frames shown at each turn [T][frames_per_turn]; the last one is the decision time."""
        n, step = self.frames_per_turn, self.frame_interval
        return tuple(tuple(self.start + step * (t * n + k) for k in range(1, n + 1)) for t in range(self.turns))


class HistoryTurn(_Frozen):
    """A given turn before the grid starts: its frames and what was said (None is silence). Never sampled or trained."""

    time: Seconds
    frame_times: tuple[Seconds, ...]
    text: str | None


class Episode(_Frozen):
    """One clip with its queries and expected answers."""

    id: Annotated[str, Field(min_length=1)]
    clip: Annotated[str, Field(min_length=1)]
    """Path of the video, relative to the folder of the file that holds the episode."""
    task: str
    """Kind of episode, e.g. `new_object`; tables group by it."""
    grid: Grid
    queries: tuple[Query, ...]
    windows: tuple[Window, ...]
    history: tuple[HistoryTurn, ...] = ()

    @field_validator("clip")
    @classmethod
    def _stays_inside(cls, clip: str) -> str:
        if PurePosixPath(clip).is_absolute() or ".." in PurePosixPath(clip).parts:
            raise ValueError(f"{clip!r} leaves the folder; give a path relative to it, without ..")
        return clip

    @model_validator(mode="after")
    def _in_time_order(self) -> "Episode":
        for name, times in (
            ("queries", [q.time for q in self.queries]),
            ("windows", [w.reply[0] for w in self.windows]),
            ("history", [h.time for h in self.history]),
        ):
            if times != sorted(times):
                raise ValueError(f"{name} must be in time order, got {times}")
        if self.history and self.history[-1].time > self.grid.start:
            raise ValueError(f"history ends at {self.history[-1].time} s, after the grid starts ({self.grid.start} s)")
        return self

    @property
    def turns(self) -> int:
        """T, the number of decisions."""
        return self.grid.turns

    def until(self, turns: int) -> "Episode":
        """The episode with its first `turns` decisions alone; all windows stay. Itself where it has no more."""
        if turns >= self.turns:
            return self
        return self.model_copy(update={"grid": self.grid.model_copy(update={"turns": turns})})

    def shown_queries(self) -> tuple[tuple[Query, ...], ...]:
        """Queries of each shown turn [H + T], the history's first: those said in (previous turn's time, its time]."""
        times = (float("-inf"), *(past.time for past in self.history), *self.grid.times)
        return tuple(tuple(q for q in self.queries if after < q.time <= time) for after, time in pairwise(times))

    def windows_at(self, time: float) -> tuple[int, ...]:
        """Indices of the windows whose reply span holds `time`, both ends inclusive."""
        return tuple(i for i, w in enumerate(self.windows) if w.reply[0] <= time <= w.reply[1])

    def question_at(self, time: float) -> str:
        """The latest query said by `time`, subtitles apart; the first one when none was (empty without any query)."""
        asked = [q for q in self.queries if not q.text.startswith(SUBTITLE)]
        said = [q.text for q in asked if q.time <= time] or [q.text for q in asked[:1]]
        return said[-1] if said else ""


def describe(error: ValidationError) -> str:
    """The first fault of a pydantic error as `field: reason`, with the number of further ones."""
    faults = faults_of(error)
    field = ".".join(str(part) for part in faults[0]["loc"]) or "record"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{field}: {faults[0]['msg'].removeprefix('Value error, ')}{more}"


def faults_of(error: ValidationError) -> list[ErrorDetails]:
    """The faults, unknown keys first: a misspelt key is also one that is missing under its right name."""
    return sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")


class Demonstration(_Frozen):
    """An episode with the action to imitate at each turn; None is silence. A caption is one with a single turn."""

    episode: Episode
    actions: tuple[str | None, ...]
    thoughts: tuple[str, ...] = Field(default=(), exclude_if=lambda thoughts: not thoughts)
    """What is thought before each action, for protocols that have thoughts; none: empty ones."""

    @model_validator(mode="after")
    def _one_a_turn(self) -> "Demonstration":
        for name, given in (("actions", len(self.actions)), ("thoughts", len(self.thoughts) or self.episode.turns)):
            if given != self.episode.turns:
                raise ValueError(f"{name}: {given} for {self.episode.turns} turns; give one a turn")
        return self


Record = TypeVar("Record", Episode, Demonstration)


def _read(path: str | Path, model: type[Record], identify: Callable[[Record], str]) -> list[Record]:
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; `dvc repro data` builds the embedded world's")
    records: dict[str, Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; write the file anew") from None
    for number, line in enumerate(lines, start=1):
        try:
            record = model.model_validate_json(line)
        except ValidationError as error:
            raise UserError(f"{path}:{number}: {describe(error)}; correct this record") from None
        if identify(record) in records:
            raise UserError(f"{path}:{number}: id: {identify(record)!r} stands twice; ids must be unique")
        records[identify(record)] = record
    return list(records.values())


def read_episodes(path: str | Path) -> list[Episode]:
    """Read episodes from JSON Lines. Raises UserError naming file, line and field; ids must be unique."""
    return _read(path, Episode, lambda episode: episode.id)


def read_demonstrations(path: str | Path) -> list[Demonstration]:
    """Read demonstrations from JSON Lines. Raises UserError naming file, line and field; episode ids must be unique."""
    return _read(path, Demonstration, lambda demonstration: demonstration.episode.id)


def cut(episodes: Iterable[Episode], turns: Mapping[str, int]) -> dict[str, Episode]:
    """The episodes by id, each with as many decisions as `turns` says (all where it does not): what was rolled out."""
    return {episode.id: episode.until(turns.get(episode.id, episode.turns)) for episode in episodes}


def write_records(path: str | Path, records: Iterable[Episode | Demonstration]) -> None:
    """Write episodes or demonstrations as JSON Lines, by rename."""
    write_jsonl(path, (record.model_dump(mode="json") for record in records))
