"""Verdicts kept on disk: a judge is asked each thing once, whatever stage, process or retry asks again."""

import asyncio
import errno
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from turnwise.errors import UserError
from turnwise.judging.base import Grade, Judge, Verdict, abstentions
from turnwise.progress import Bar, emit

_PATIENCE = 2.0  # seconds of asking before progress is told: most judges are asked little, or answer at once
_WAIT = 60.0  # seconds that a process waits for another one's transaction
_ELSEWHERE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_CANTOPEN")  # not its damage
INSERT = "INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?)"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS verdicts"
    " (key TEXT PRIMARY KEY, judge TEXT NOT NULL, item TEXT NOT NULL, score REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spending"
    " (model TEXT PRIMARY KEY, calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL)",
)


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on the cache's file, which is made if it is missing.

    Raises UserError for a file that cannot be used, and OSError where the disk is full, where the file cannot be opened
    or written, or where another process does not let go of it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_WAIT, isolation_level="IMMEDIATE")) as db, db:
            db.execute("PRAGMA synchronous = normal")  # in WAL mode a power cut may lose the last verdicts, no more
            yield db
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_CANTOPEN":
            path.open("ab").close()  # raises what SQLite does not tell: a read-only file system, no right, a folder
        if name.startswith(_ELSEWHERE):
            raise OSError(errno.EIO, str(error), str(path)) from None
        raise UserError(f"{path}: {error}; move this file away, verdicts are then asked for again") from None


class VerdictCache:
    """SQLite file of scores, keyed by the judge's version and all of the grade. Abstentions are not kept: ask again.

    Safe for several processes at a time (WAL; verdicts are written as they come). Where two give different scores, the
    one written first stands.
    """

    def __init__(self, path: str | Path, *, abstain: str = "drop_point", max_abstained: float = 1.0):
        """Opens or creates the file, and its folder; `abstain` and `max_abstained` as in `params.yaml`, section `judge`.

        Raises UserError for a file that is no cache of verdicts.
        """
        self.path, self.abstain, self.max_abstained = Path(path), abstain, max_abstained
        with connected(self.path) as db:
            db.execute("PRAGMA journal_mode = wal")
            for table in _TABLES:
                db.execute(table)
            db.execute("SELECT key, judge, item, score FROM verdicts LIMIT 0")

    def grade_all(self, judge: Judge, items: Sequence[Grade]) -> list[Verdict]:
        """Verdicts in the order of `items`; the judge is asked once for each distinct item that is not in the file.

        Raises UserError where the judge abstains more often than the cache's limits allow; what it did answer is kept.
        """
        distinct = {item: _key(judge.version, item) for item in items}
        scores = self._get(distinct)
        fresh = self._ask(judge, [item for item in distinct if item not in scores])
        verdicts = [Verdict(scores[item]) if item in scores else fresh[item] for item in items]
        self._check(judge.name, verdicts)
        return verdicts

    def missing(self, judge: Judge, items: Sequence[Grade]) -> list[Grade]:
        """The distinct items that the judge would be asked."""
        distinct = {item: _key(judge.version, item) for item in items}
        known = self._get(distinct)
        return [item for item in distinct if item not in known]

    def _ask(self, judge: Judge, items: Sequence[Grade]) -> dict[Grade, Verdict]:
        answers: dict[Grade, Verdict] = {}
        with connected(self.path) as db, Bar(f"verdicts of {judge.name}", len(items), patience=_PATIENCE) as bar:

            def done(item: Grade, verdict: Verdict) -> None:
                answers[item] = verdict
                if verdict.score is not None:  # at once: a kill loses no answer that was paid for
                    db.execute(INSERT, row_of(judge.version, item, verdict.score))
                    db.commit()
                bar.advance()

            if items:
                asyncio.run(judge.grade_all(items, done))
        return answers

    def _check(self, judge: str, verdicts: Sequence[Verdict]) -> None:
        causes = abstentions(verdicts)
        if not causes:
            return
        missing, listed = sum(causes.values()), ", ".join(f"{count} {cause}" for cause, count in causes.items())
        said = f"{judge} abstained from {missing} of {len(verdicts)} verdicts ({listed})"
        if self.abstain == "stop" or missing > self.max_abstained * len(verdicts):
            limit = "judge.abstain: stop" if self.abstain == "stop" else f"judge.max_abstained: {self.max_abstained:g}"
            raise UserError(f"params.yaml: {limit}: {said}; see to the judge and run again, its verdicts are kept")
        emit("warning", message=said)

    def _get(self, keys: Mapping[Grade, str]) -> dict[Grade, float]:
        select = "SELECT key, score FROM verdicts WHERE key IN (SELECT value FROM json_each(?))"
        with connected(self.path) as db:
            found = dict(db.execute(select, [json.dumps(list(keys.values()))]))
        for item, key in keys.items():
            if key in found and not is_score(found[key], item):
                raise UserError(f"{self.path}: {found[key]!r} is no score of 0..{item.levels - 1}; move this file away")
        return {item: found[key] for item, key in keys.items() if key in found}


def is_score(value: object, item: Grade) -> bool:
    """Whether a value from a file can be a score of the item."""
    return isinstance(value, float) and 0 <= value <= item.levels - 1


def row_of(version: str, item: Grade, score: float) -> tuple[str, str, str, float]:
    """The row of table `verdicts` that keeps a score."""
    return _key(version, item), version, json.dumps(asdict(item)), score


def _key(version: str, item: Grade) -> str:
    return hashlib.sha256(json.dumps([version, asdict(item)], sort_keys=True).encode()).hexdigest()
