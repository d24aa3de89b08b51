"""What is in the cache of verdicts, and taking verdicts out, in, and away. The form on paper is JSON Lines."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from turnwise.episodes import describe
from turnwise.errors import UserError
from turnwise.files import replacing
from turnwise.judging.base import Grade
from turnwise.judging.cache import INSERT, VerdictCache, connected, is_score, row_of


class _Line(BaseModel):
    """One verdict of an exported file."""

    model_config = ConfigDict(extra="forbid")

    judge: str
    item: Grade
    score: float


def counts(cache: VerdictCache) -> dict[str, dict[str, int]]:
    """How many verdicts there are by judge's version and kind of item."""
    select = "SELECT judge, item ->> 'kind', count(*) FROM verdicts GROUP BY 1, 2 ORDER BY 1, 2"
    found: dict[str, dict[str, int]] = {}
    with connected(cache.path) as db:
        for judge, kind, number in db.execute(select):
            found.setdefault(judge, {})[kind] = number
    return found


def export(cache: VerdictCache, out: Path) -> int:
    """Write every verdict as a line {"judge", "item", "score"}, by rename; returns how many."""
    number = 0
    with replacing(out) as scratch, scratch.open("w", encoding="utf-8") as file, connected(cache.path) as db:
        for judge, item, score in db.execute("SELECT judge, item, score FROM verdicts ORDER BY judge, key"):
            number += 1
            file.write(
                json.dumps({"judge": judge, "item": json.loads(item), "score": score}, ensure_ascii=False) + "\n"
            )
    return number


def take_in(cache: VerdictCache, source: Path) -> tuple[int, int]:
    """Add the verdicts of an exported file; what is there already stands. Returns how many were new, of how many.

    Raises UserError naming file, line and fault; then nothing is added.
    """
    seen = 0

    def rows() -> Iterator[tuple[str, str, str, float]]:
        nonlocal seen
        for line in _lines(source):
            seen += 1
            yield row_of(line.judge, line.item, line.score)

    with connected(cache.path) as db:
        before = db.total_changes
        db.executemany(INSERT, rows())
        return db.total_changes - before, seen


def _lines(source: Path) -> Iterator[_Line]:
    try:
        file = source.open(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{source}: no such file; `turnwise judge cache export` writes one") from None
    with closing(file):
        try:
            for number, text in enumerate(file, start=1):
                line = _Line.model_validate_json(text)
                if not is_score(line.score, line.item):
                    raise UserError(
                        f"{source}:{number}: score: {line.score:g} is not 0..{line.item.levels - 1}; correct it"
                    )
                yield line
        except ValidationError as error:
            raise UserError(
                f"{source}:{number}: {describe(error)}; correct this line or export the file anew"
            ) from None
        except UnicodeDecodeError:
            raise UserError(f"{source}: not UTF-8; export the file anew") from None


def prune(cache: VerdictCache, judge: str) -> int:
    """Remove the verdicts of all judges whose version begins with `judge`; returns how many."""
    with connected(cache.path) as db:
        removed = db.execute("DELETE FROM verdicts WHERE substr(judge, 1, length(?1)) = ?1", [judge]).rowcount
    with connected(cache.path) as db:
        db.execute("VACUUM")
    return removed
