"""Lines of `timings/<stage>/<cell>.jsonl`: what a run of a stage took and, before it, each update of `rl`."""

import json
import math
from pathlib import Path
from typing import Any

from turnwise.errors import UserError
from turnwise.files import write_text

Line = dict[str, float]
FIELDS = ({"seconds", "peak_mb"}, {"update", "total"})
"""What a line of a whole run has at least, and what one of an update has; all are numbers."""


def book(path: Path, line: Line) -> None:
    """Add a line, by rename."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    write_text(path, f"{before}{json.dumps(line)}\n")


def read_lines(path: Path) -> list[Line]:
    """The lines of a file, in the order in which they were booked. Raises UserError naming the line that is none."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; delete it, only times are lost") from None
    return [_line(text, f"{path}:{number}") for number, text in enumerate(texts, start=1)]


def _line(text: str, place: str) -> Line:
    try:
        line: Any = json.loads(text)
    except ValueError:
        line = None
    if not (isinstance(line, dict) and all(map(_is_number, line.values())) and any(map(line.keys().__ge__, FIELDS))):
        raise UserError(f"{place}: no line of timings; delete it, only times are lost")
    return line


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
