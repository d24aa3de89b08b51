"""Reading predictions that anyone wrote, and every fault in them.

Formats: our own JSON Lines (store.py, or the lines that the stage `evaluate` writes), ProactiveVideoQA's submission JSON
Lines, and OVO-Bench's result JSON. A fault makes a file unfit to be scored; a note says what was made of something odd.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from turnwise.benchmarks.items import Item, Reply
from turnwise.errors import UserError


@dataclass
class Read:
    """What was read: replies by item key in time order, and what is to be said of it."""

    items: Mapping[str, Item]
    """The benchmark's items by key."""
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    headers: list[dict[str, Any]] = field(default_factory=list)
    """The headers of files that have one: benchmark, protocol, fingerprint."""
    files: list[Path] = field(default_factory=list)

    @cached_property
    def by_id(self) -> dict[str, list[str]]:
        """Keys of the items of each id."""
        found: dict[str, list[str]] = {}
        for key, item in self.items.items():
            found.setdefault(item.id, []).append(key)
        return found

    def add(self, where: str, key: str, replies: Sequence[Reply], *, again: str | None = None) -> None:
        """Keep an item's replies. A second time is a fault, or where `again` says so, that note; the first counts."""
        if key not in self.items:
            self.faults.append(f"{where}: item: {key!r} is not in the annotation")
        elif key in self.replies:
            (self.faults if again is None else self.notes).append(f"{where}: {key} stands twice{again or ''}")
        else:
            self.replies[key] = self._ordered(where, key, replies)

    def _ordered(self, where: str, key: str, replies: Sequence[Reply]) -> list[Reply]:
        ordered = sorted(replies, key=lambda reply: reply.time)
        if ordered != list(replies):
            self.notes.append(f"{where}: {key}: replies are not in time order; they are put in order")
        late = sum(reply.time > self.items[key].ends + 1e-6 for reply in ordered)
        if late:
            self.notes.append(f"{where}: {key}: {late} replies come after the stream's end, {self.items[key].ends:g} s")
        return ordered

    def missing(self) -> list[str]:
        """Keys of the items without a prediction."""
        return [key for key in self.items if key not in self.replies]


def read_predictions(paths: Sequence[Path], benchmark: str, items: Sequence[Item]) -> Read:
    """Read predictions for `items`; a folder stands for the JSON and JSON Lines files in it.

    Raises UserError for a path without such files; all else that is wrong is in `faults`.
    """
    from turnwise.benchmarks.submissions import read_ovo_results, read_submission_line

    read = Read({item.key: item for item in items})
    read.files = _files(paths)
    for path in read.files:
        values = list(_values(path, read))
        first = values[0][1] if values else None
        if isinstance(first, dict) and first.keys() & {"backward", "realtime", "forward"} and benchmark == "ovo_bench":
            read_ovo_results(str(path), first, read)
            continue
        for where, value in values:
            if isinstance(value, dict) and "question_id" in value and benchmark == "proactivevideoqa":
                read_submission_line(where, value, read)
            else:
                _read_line(where, value, benchmark, read)
    if len({header.get("fingerprint") for header in read.headers}) > 1:
        read.faults.append("fingerprint: the files hold predictions of different runs; score them apart")
    return read


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in (".json", ".jsonl")) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"{path}: holds no .json or .jsonl file; name the predictions")
        files += inside
    return files


def _values(path: Path, read: Read) -> "list[tuple[str, Any]]":
    """(place, JSON value) of a file that is one JSON value, or has one a line. Lines that are neither become faults."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}; name a predictions file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; is this a predictions file?") from None
    lines = [(f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    values = []
    for where, line in lines:
        try:
            values.append((where, json.loads(line)))
        except (ValueError, RecursionError) as error:
            whole = _whole(text)
            if whole is not None:
                return [(str(path), whole)]
            read.faults.append(f"{where}: not valid JSON: {error}")
    if not values:
        read.faults.append(f"{path}: holds no prediction")
    return values


def _whole(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_line(where: str, line: Any, benchmark: str, read: Read) -> None:
    if not isinstance(line, dict):
        read.faults.append(f"{where}: is no JSON object")
    elif line.get("benchmark", benchmark) != benchmark:
        _other_benchmark(where, line, benchmark, read)
    elif isinstance(line.get("protocol"), dict):
        read.headers.append(line)
    elif not isinstance(line.get("subset"), str) or not isinstance(line.get("item"), str):
        read.faults.append(f"{where}: subset, item: must be texts; this is no line of a known format of {benchmark}")
    else:
        key = f"{line['subset']}/{line['item']}"
        read.add(where, key, replies_of(f"{where}: {key}: replies", line.get("replies"), "text", read))


def _other_benchmark(where: str, line: Mapping[str, Any], benchmark: str, read: Read) -> None:
    """A file of the stage `evaluate` holds several benchmarks; one with a header holds one."""
    if isinstance(line.get("protocol"), dict):
        read.faults.append(f"{where}: benchmark: these are predictions of {line['benchmark']}, not of {benchmark}")


def replies_of(where: str, values: Any, text: str, read: Read) -> list[Reply]:
    """Replies from objects with `time` and `text`; what is no such object becomes a fault."""
    if not isinstance(values, list):
        read.faults.append(f"{where}: must be a list, not {type(values).__name__}")
        return []
    found = []
    for number, value in enumerate(values):
        reason = _fault(value, text)
        if reason:
            read.faults.append(f"{where}.{number}: {reason}")
        else:
            found.append(Reply(float(value["time"]), value[text]))
    return found


def _fault(value: Any, text: str) -> str | None:
    if not isinstance(value, dict):
        return "must be an object with time and text"
    time = value.get("time")
    if isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time) or time < 0:
        return f"time: must be a number of seconds from 0, got {time!r}"
    if not isinstance(value.get(text), str):
        return f"{text}: must be a text, got {value.get(text)!r}"
    return None
