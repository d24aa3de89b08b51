"""The cache of verdicts: what is asked, what is kept, what several processes do to it, and what junk does."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict, replace

import pytest

from turnwise.errors import UserError
from turnwise.judging import Grade, Judge, RuleJudge, Verdict, VerdictCache
from turnwise.judging.keeping import counts, export, prune, take_in

ITEM = Grade("level", "What is there?", "striped red", "a red thing", 12)


class Counting(Judge):
    """A judge that keeps what it was asked and abstains from replies about blue."""

    def __init__(self, name="counting", version="1"):
        self.name, self.version, self.asked = name, version, []

    async def grade(self, item):
        self.asked.append(item)
        return Verdict(None, "no idea") if "blue" in item.reply else Verdict(float(len(item.reply)))


def test_each_distinct_item_is_asked_once_and_never_again(tmp_path):
    judge, other = Counting(), replace(ITEM, reply="green")
    items = [ITEM, other, ITEM]
    assert [v.score for v in VerdictCache(tmp_path / "new" / "v.sqlite").grade_all(judge, items)] == [11, 5, 11]
    assert judge.asked == [ITEM, other]
    assert [v.score for v in VerdictCache(tmp_path / "new" / "v.sqlite").grade_all(judge, items)] == [11, 5, 11]
    assert len(judge.asked) == 2


def test_everything_that_can_change_the_answer_is_in_the_key(tmp_path):
    cache, judge = VerdictCache(tmp_path / "v.sqlite"), Counting()
    changes = [{"kind": "repeat"}, {"question": "?"}, {"reference": "r"}, {"reply": "r"}, {"levels": 20}]
    variants = [ITEM, *(replace(ITEM, **change) for change in changes)]
    assert cache.missing(judge, variants * 2) == variants
    cache.grade_all(judge, [ITEM])
    assert cache.missing(judge, variants) == variants[1:]
    cache.grade_all(judge, variants)
    cache.grade_all(judge, variants)
    assert judge.asked == variants
    assert cache.missing(judge, variants) == []
    cache.grade_all(renamed := Counting("another"), [ITEM])
    cache.grade_all(changed := Counting(version="2"), [ITEM])
    assert (renamed.asked, changed.asked) == ([], [ITEM])


def test_an_abstention_is_passed_on_and_asked_again(tmp_path):
    cache, judge = VerdictCache(tmp_path / "v.sqlite"), Counting()
    blue = replace(ITEM, reply="blue")
    for _ in range(2):
        assert cache.grade_all(judge, [blue, ITEM]) == [Verdict(None, "no idea"), Verdict(11.0)]
    assert judge.asked == [blue, ITEM, blue]


def test_nothing_to_ask(tmp_path):
    assert VerdictCache(tmp_path / "v.sqlite").grade_all(RuleJudge(5), []) == []


def test_too_many_abstentions_stop_the_run_and_the_rest_is_kept(tmp_path, capsys):
    items = [replace(ITEM, reply=f"{colour} {i}") for i in range(5) for colour in ("red", "blue")][:9]
    path, judge = tmp_path / "v.sqlite", Counting()
    VerdictCache(path, max_abstained=0.45).grade_all(judge, items)
    assert "counting abstained from 4 of 9 verdicts (4 no idea)" in capsys.readouterr().err
    limit = r"params\.yaml: judge\.max_abstained: 0\.4: counting abstained from 4 of 9 verdicts \(4 no idea\); .* kept$"
    with pytest.raises(UserError, match=limit):
        VerdictCache(path, max_abstained=0.4).grade_all(judge, items)
    with pytest.raises(UserError, match=r"judge\.abstain: stop: counting abstained from 4 of 9"):
        VerdictCache(path, abstain="stop").grade_all(judge, items)
    assert len(judge.asked) == 9 + 4 + 4


WRITER = """
import sys
from turnwise.judging import Grade, RuleJudge, VerdictCache
for start in range(0, 60, 10):
    items = [Grade("level", "?", "striped red", f"red {i}", 5) for i in range(start, start + 20)]
    assert len(VerdictCache(sys.argv[1]).grade_all(RuleJudge(5), items)) == 20
"""


def test_several_processes_share_a_file(tmp_path):
    path = tmp_path / "v.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) for _ in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 4
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT count(*) FROM verdicts").fetchone() == (70,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


SLOW = """
import asyncio, sys
from turnwise.judging import Grade, Judge, Verdict, VerdictCache
class Slow(Judge):
    name = version = "slow"
    async def grade(self, item):
        await asyncio.sleep(0.01)
        return Verdict(1.0)
VerdictCache(sys.argv[1]).grade_all(Slow(), [Grade("level", "?", "r", f"{i}", 5) for i in range(100_000)])
"""


def test_a_killed_process_leaves_what_it_had_judged(tmp_path):
    path = tmp_path / "v.sqlite"
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path)])
    cache, start = VerdictCache(path), time.monotonic()
    while not counts(cache) and time.monotonic() - start < 60:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert counts(cache)["slow"]["level"] > 0
    assert cache.grade_all(Counting(), [ITEM]) == [Verdict(11.0)]


def _text(path):
    path.write_text("not a database, but longer than a header of one hundred bytes would be" * 3)


def _other(path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE verdicts (something TEXT)")


def _torn(path):
    VerdictCache(path).grade_all(RuleJudge(12), [replace(ITEM, reply=str(i)) for i in range(200)])
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))


def _junk(path):
    VerdictCache(path).grade_all(RuleJudge(12), [ITEM])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE verdicts SET score = 'high'")


def _beyond(path):
    VerdictCache(path).grade_all(RuleJudge(12), [ITEM])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE verdicts SET score = 99")


@pytest.mark.parametrize("junk", [_text, _other, _torn, _junk, _beyond])
def test_junk_in_the_file_is_one_clear_error(tmp_path, junk):
    path = tmp_path / "v.sqlite"
    junk(path)
    with pytest.raises(UserError, match=rf"^{path}: .*; move this file away") as caught:
        VerdictCache(path).grade_all(RuleJudge(12), [ITEM])
    assert "\n" not in str(caught.value)


def test_verdicts_travel(tmp_path):
    here, there = VerdictCache(tmp_path / "here.sqlite"), VerdictCache(tmp_path / "there.sqlite")
    items = [replace(ITEM, reply=f"rot \u00e4\n{i}") for i in range(5)]
    judge, rule = Counting(), RuleJudge(12)
    expected = here.grade_all(judge, items)
    here.grade_all(rule, items)
    there.grade_all(judge, items[:2])
    assert export(here, tmp_path / "v.jsonl") == 10
    assert take_in(there, tmp_path / "v.jsonl") == (8, 10)
    assert take_in(there, tmp_path / "v.jsonl") == (0, 10)
    assert there.grade_all(silent := Counting(), items) == expected
    assert silent.asked == []
    assert counts(there) == {"1": {"level": 5}, rule.version: {"level": 5}}
    assert prune(there, "rule@") == 5
    assert counts(there) == {"1": {"level": 5}}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "record: Invalid JSON"),
        ('{"judge": "1", "score": 1.0}', "item: Field required"),
        ('{"judge": "1", "item": {"kind": "level"}, "score": 1.0}', "item.question: Field required"),
        (json.dumps({"judge": "1", "item": asdict(ITEM), "score": 12}), r"score: 12 is not 0\.\.11"),
        (json.dumps({"judge": "1", "item": asdict(ITEM), "score": "high"}), "score: Input should be a valid number"),
    ],
)
def test_a_bad_line_is_named_and_nothing_comes_in(tmp_path, line, fault):
    cache, source = VerdictCache(tmp_path / "v.sqlite"), tmp_path / "v.jsonl"
    cache.grade_all(Counting(), [ITEM])
    export(cache, source)
    other = VerdictCache(tmp_path / "other.sqlite")
    source.write_text(source.read_text() + line + "\n")
    with pytest.raises(UserError, match=rf"^{source}:2: {fault}"):
        take_in(other, source)
    assert counts(other) == {}
    with pytest.raises(UserError, match=r"no such file; `turnwise judge cache export` writes one"):
        take_in(other, tmp_path / "missing.jsonl")


def test_a_place_that_cannot_be_opened_is_not_called_damage(tmp_path):
    (tmp_path / "verdicts.sqlite").mkdir()
    with pytest.raises(IsADirectoryError, match=r"verdicts\.sqlite"):
        VerdictCache(tmp_path / "verdicts.sqlite")
