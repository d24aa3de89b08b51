"""What a judge's server sends, damaged: a verdict of the rubric or an abstention with its cause, never an exception."""

import asyncio
import json
import sys
from itertools import count as numbers

import pytest
from account import INPUTS
from fuzzing import as_json, damaged_bytes, damaged_values
from kill_at import ROOT

from turnwise.config import Budget, JudgeSpec, Server
from turnwise.judging import Grade, Verdict, VerdictCache
from turnwise.judging.remote import RemoteJudge
from turnwise.judging.rubrics import messages
from turnwise.judging.spending import Spending

sys.path.insert(0, str(ROOT / "tests/judging"))
from judge_server import Answer, JudgeServer, by_the_rules

SPEC = JudgeSpec(kind="openai", levels=5, model="judge", server="local")


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.slow)], ids=["some", "many"])
def test_damaged_answers(tmp_path, count):
    items = [Grade("level", "What is it?", "striped red", f"a red thing {n}", 5) for n in range(2 * count)]
    whole = completion()
    bodies = [*list(damaged_bytes(whole, count))[-count:], *map(as_json, damaged_values(json.loads(whole), count))]
    number = numbers()
    with JudgeServer(lambda *_: Answer(bodies[next(number)])) as server:
        how = Server(base_url=server.url, timeout=5.0, retries=0, concurrency=1)
        judge = RemoteJudge(SPEC, how, Spending(VerdictCache(tmp_path / "v.sqlite").path, Budget()))
        verdicts: dict[Grade, Verdict] = {}
        asyncio.run(judge.grade_all(items, verdicts.__setitem__))
    counts = INPUTS["judge's answer"]
    for item, body in zip(items, bodies, strict=True):
        verdict = verdicts[item]
        counts["read"] += 1
        counts["refused"] += verdict.score is None
        assert verdict.score in (None, 0.0, 1.0, 2.0, 3.0, 4.0)
        assert (verdict.score is None) == (verdict.cause is not None)
        assert verdict.score is None or not whole.startswith(body) or body == whole


def completion() -> bytes:
    """What an undamaged server says to one of the items."""
    return by_the_rules({"messages": messages(Grade("level", "What is it?", "striped red", "a red thing", 5))}).body
