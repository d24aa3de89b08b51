import asyncio
from dataclasses import replace

import pytest

from turnwise.config import JudgeSpec
from turnwise.judging import Grade, RuleJudge, build_judge
from turnwise.judging.strict import LEVEL_NOISE, REPEAT_NOISE, StrictJudge, level, repeats

JUDGE = StrictJudge(5)


def grade(item, judge=JUDGE):
    return asyncio.run(judge.grade(item)).score


@pytest.mark.parametrize(
    ("reply", "five"),
    [
        ("Red, and striped!", 4),
        ("Something red is there.", 2),
        ("A plain red object.", 1),
        ("striped red blue", 2),
        ("dark and blue", 0),
        ("", 0),
    ],
)
def test_a_wrong_word_costs_more_than_under_the_rule(reply, five):
    assert level(reply, "striped and red", 5) == five


def test_old_facts_together_make_a_repeat():
    assert repeats("dark blue", "dark red\nbright blue")
    assert not repeats("dark green", "dark red\nbright blue")
    assert repeats("red", "striped red")


def test_noise_is_rare_bounded_and_always_the_same():
    items = [Grade("level", str(i), "striped and red", "Something red", 5) for i in range(2000)]
    scores = [grade(item) for item in items]
    assert scores == [grade(item, StrictJudge(3)) for item in items]
    assert {score - 2 for score in scores} == {-1, 0, 1}
    assert sum(score != 2 for score in scores) / 2000 == pytest.approx(LEVEL_NOISE, abs=0.03)
    assert {grade(replace(item, reply="blue")) for item in items} == {0, 1}
    repeated = [grade(Grade("repeat", str(i), "striped red", "red", 2)) for i in range(2000)]
    assert 1 - sum(repeated) / 2000 == pytest.approx(REPEAT_NOISE, abs=0.02)


def test_it_is_another_judge_by_configuration():
    judge = build_judge(JudgeSpec(kind="strict", levels=3))
    assert judge.name == "strict-3"
    assert judge.version != RuleJudge(3).version
