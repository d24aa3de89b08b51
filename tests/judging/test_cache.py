import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

from turnwise.judging import Grade, RuleJudge, Verdict, VerdictCache

ITEM = Grade("level", "What is there?", "striped red", "a red thing", 5)


class Counting:
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
    changes = [{"kind": "repeat"}, {"question": "?"}, {"reference": "r"}, {"reply": "r"}, {"levels": 3}]
    variants = [ITEM, *(replace(ITEM, **change) for change in changes)]
    cache.grade_all(judge, variants)
    cache.grade_all(judge, variants)
    assert judge.asked == variants
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


WRITER = """
import sys
from turnwise.judging import Grade, RuleJudge, VerdictCache
for start in range(0, 60, 10):
    items = [Grade("level", "?", "striped red", f"red {i}", 5) for i in range(start, start + 20)]
    assert len(VerdictCache(sys.argv[1]).grade_all(RuleJudge(5), items)) == 20
"""


def test_several_processes_share_a_file(tmp_path):
    path = tmp_path / "v.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) for _ in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 3
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT count(*) FROM verdicts").fetchone() == (70,)
