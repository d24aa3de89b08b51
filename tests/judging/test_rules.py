import asyncio
import importlib.util
from pathlib import Path

import pytest

from turnwise import config
from turnwise.judging import Grade, RuleJudge, build, build_judge, rules
from turnwise.judging.rules import content, level, repeats
from turnwise.worlds.language import NOTHING_SEEN, REPLIES, replies

REFERENCES = {
    "new_object": "striped and red",
    "one_event": "dark and blue",
    "count": "three",
    "steps": "two, plain and cyan",
    "choice": "A. red",
}


@pytest.mark.parametrize(
    ("reply", "five", "three"),
    [
        ("Red, and striped!", 4, 2),
        ("A plain red object has just appeared.", 2, 1),
        ("Something red is there.", 2, 1),
        ("striped red blue", 3, 1),
        ("dark and blue", 0, 0),
        ("An object is on the screen.", 0, 0),
        ("", 0, 0),
    ],
)
def test_levels(reply, five, three):
    assert (level(reply, "striped and red", 5), level(reply, "striped and red", 3)) == (five, three)


@pytest.mark.parametrize("task", REFERENCES)
def test_every_way_the_world_says_it_is_the_best_level(task):
    for reply in replies(task, REFERENCES[task]):
        assert level(reply, REFERENCES[task], 5) == 4
        assert level(NOTHING_SEEN, REFERENCES[task], 5) == 0
        assert content(reply) == content(REFERENCES[task])


def test_the_worlds_templates_are_filler():
    for template in (t for templates in REPLIES.values() for t in templates):
        assert content(template.format("red")) == {"red"}


def test_the_letter_of_an_option_is_no_article():
    assert content("A red object") == {"red"}
    assert content("A. red") == content("(A) red") == {"(a)", "red"}
    assert content("It is A") == {"(a)"}
    assert level("B", "A", 5) == 0


@pytest.mark.parametrize(
    ("reply", "earlier", "same"),
    [
        ("Again, something striped and red.", "plain blue\nA striped red object is here.", True),
        ("red", "striped red", True),
        ("dark blue", "dark red\nbright blue", False),
        ("three", "one\ntwo", False),
    ],
)
def test_repeats(reply, earlier, same):
    assert repeats(reply, earlier) is same


def test_the_kind_says_which_judge_is_built(monkeypatch):
    monkeypatch.setitem(build.RULES, "other", lambda levels: ("other", levels))
    assert build_judge(config.JudgeSpec.model_construct(kind="other", levels=5)) == ("other", 5)
    assert isinstance(build_judge(config.JudgeSpec(kind="rule", levels=5)), RuleJudge)


def test_editing_the_rules_changes_the_version(tmp_path):
    source = Path(rules.__file__).read_text()
    edited = tmp_path / "edited.py"
    edited.write_text(source.replace("rounded down", "rounded to the floor"))
    spec = importlib.util.spec_from_file_location("edited", edited)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.RuleJudge(5).version != RuleJudge(5).version


def test_the_judge_grades_by_the_levels_of_the_item():
    judge = build_judge(config.JudgeSpec(kind="rule", levels=5))
    grade = lambda *item: asyncio.run(judge.grade(Grade(*item))).score  # noqa: E731
    assert judge.name == "rule-5"
    assert judge.version == build_judge(config.JudgeSpec(kind="rule", levels=3)).version
    assert grade("level", "?", "striped red", "red", 3) == 1
    assert grade("repeat", "?", "striped red", "red", 2) == 1
