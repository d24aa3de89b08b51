"""What a reward asks for beside the facts of every evidence: further levels, and the dialogue up to each reply."""

import numpy as np
import pytest

from turnwise.episodes import Episode, Grid, Query, Window
from turnwise.judging import Grade, RuleJudge, Verdict, VerdictCache, collect_evidence
from turnwise.judging.rules import dialogue
from turnwise.records import Action, Asks, Trajectory

WINDOWS = tuple(
    Window(text=t, related=(s, s + 2), reply=(s, s + 3)) for t, s in (("dark red", 2.0), ("bright blue", 8.0))
)
EPISODE = Episode(
    id="e",
    clip="e.mp4",
    task="t",
    grid=Grid(frame_interval=2.0, turns=6),
    queries=(Query(text="What is new?", time=0.0),),
    windows=WINDOWS,
)
SAID = [None, "It is dark red.", "It is dark red.", "!", None, "It is bright blue."]
EVERYTHING = Asks(answers=np.ones((6, 2), bool), rubric=True)


def trajectory(said, thought=3):
    kinds = ["silence" if text is None else "malformed" if text == "!" else "reply" for text in said]
    acts = (Action((1,), (0.0,), t or "", k, False, thought) for t, k in zip(said, kinds, strict=True))
    return Trajectory("e", 0, tuple(acts))


def evidence(tmp_path, said, asks=EVERYTHING, judge=None):
    cache = VerdictCache(tmp_path / "v.sqlite")
    return collect_evidence(judge or RuleJudge(5), cache, 5, {"e": EPISODE}, [trajectory(said)], lambda _: asks)[0]


def test_replies_are_judged_where_the_reward_asks_duplicates_too(tmp_path):
    found = evidence(tmp_path, SAID)
    none = [np.nan, np.nan]
    np.testing.assert_array_equal(found.answers, [none, [4, 0], [4, 0], none, none, [0, 4]])
    assert np.isnan(found.levels[2, 0])
    assert found.thought_tokens.tolist() == [3] * 6
    one = evidence(tmp_path, SAID, Asks(answers=np.eye(6, 2, -1, bool)))
    np.testing.assert_array_equal(one.answers[:3], [none, [4, np.nan], [np.nan, 0]])
    assert one.rubric is None


def test_nothing_more_is_judged_for_a_reward_that_asks_for_nothing(tmp_path):
    bare = evidence(tmp_path, SAID, Asks())
    assert bare.answers is None
    assert bare.rubric is None


def test_each_prefix_has_a_rubric_of_its_own(tmp_path):
    whole = evidence(tmp_path, SAID)
    assert whole.rubric.tolist() == [0, 2, 2, 2, 2, 2]  # at last all is said, by a reply too many
    for turn in range(1, 7):
        cut = evidence(tmp_path, SAID[:turn] + [None] * (6 - turn))
        assert cut.rubric.tolist() == [*whole.rubric[:turn], *[whole.rubric[turn - 1]] * (6 - turn)]
        np.testing.assert_array_equal(cut.answers[:turn], whole.answers[:turn])


def test_a_verdict_that_is_missing_leaves_the_rubric_where_it_stood(tmp_path):
    class Shy(RuleJudge):
        async def grade(self, item: Grade) -> Verdict:
            missing = item.kind == "dialogue" and item.reply.count("red") == 2
            return Verdict(None, "shy") if missing else await super().grade(item)

    judge = Shy(5)
    judge.version = "shy"
    found = evidence(tmp_path, SAID[:3] + [None] * 3, judge=judge)
    assert found.rubric.tolist() == [0, 2, 2, 2, 2, 2]
    assert found.abstained.tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("said", "met"),
    [
        (["4.0 s: a dark red thing"], 2),
        (["4.0 s: a dark red thing", "8.0 s: a bright blue thing"], 3),
        (["4.0 s: a bright blue thing", "8.0 s: a dark red thing"], 2),
        (["4.0 s: a green cube"], 0),
        (["4.0 s: dark red", "6.0 s: dark red", "8.0 s: bright blue"], 2),
        (["4.0 s: dark red", "6.0 s: bright blue", "8.0 s: green"], 1),
    ],
)
def test_checkpoints_by_hand(said, met):
    assert dialogue("\n".join(said), "2.0 s: dark red\n8.0 s: bright blue") == met
