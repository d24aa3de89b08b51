"""Verdicts kept on disk: a judge is asked each thing once, whatever stage, process or retry asks again."""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from turnwise.judging.base import Grade, Judge, Verdict

_WAIT = 60.0  # seconds that a process waits for another one's transaction


class VerdictCache:
    """SQLite file of scores, keyed by the judge's version and all of the grade. Abstentions are not kept: ask again.

    Safe for several processes at a time (WAL; each call is one read and at most one write transaction). Where two
    give different scores, the one written first stands.
    """

    def __init__(self, path: str | Path):
        """Opens or creates the file, and its folder."""
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as db:
            db.execute("PRAGMA journal_mode = wal")
            db.execute(
                "CREATE TABLE IF NOT EXISTS verdicts"
                " (key TEXT PRIMARY KEY, judge TEXT NOT NULL, item TEXT NOT NULL, score REAL NOT NULL) WITHOUT ROWID"
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as db, db:
            db.execute("PRAGMA synchronous = normal")  # in WAL mode a power cut may lose the last verdicts, no more
            yield db

    def grade_all(self, judge: Judge, items: Sequence[Grade]) -> list[Verdict]:
        """Verdicts in the order of `items`; the judge is asked once for each distinct item that is not in the file."""
        distinct = {item: _key(judge.version, item) for item in items}
        scores = self._get(list(distinct.values()))
        missing = [item for item, key in distinct.items() if key not in scores]
        answers = dict(zip(missing, asyncio.run(_ask(judge, missing)), strict=True)) if missing else {}
        self._put(judge.version, {item: v.score for item, v in answers.items() if v.score is not None})
        verdicts = answers | {item: Verdict(scores[key]) for item, key in distinct.items() if key in scores}
        return [verdicts[item] for item in items]

    def _get(self, keys: Sequence[str]) -> dict[str, float]:
        select = "SELECT key, score FROM verdicts WHERE key IN (SELECT value FROM json_each(?))"
        with self._open() as db:
            return dict(db.execute(select, [json.dumps(keys)]))

    def _put(self, judge: str, scores: Mapping[Grade, float]) -> None:
        rows = [(_key(judge, item), judge, json.dumps(asdict(item)), score) for item, score in scores.items()]
        if rows:
            with self._open() as db:
                db.executemany("INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?)", rows)


def _key(judge: str, item: Grade) -> str:
    return hashlib.sha256(json.dumps([judge, asdict(item)], sort_keys=True).encode()).hexdigest()


async def _ask(judge: Judge, items: Sequence[Grade]) -> list[Verdict]:
    return await asyncio.gather(*(judge.grade(item) for item in items))
