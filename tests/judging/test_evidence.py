import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.episodes import Episode, Grid, HistoryTurn, Query, Window
from turnwise.judging import Grade, Judge, RuleJudge, Verdict, VerdictCache, collect_evidence
from turnwise.records import Action, Trajectory

NAN = np.nan
WINDOWS = (
    Window(text="striped red", related=(2.0, 4.0), reply=(2.0, 4.0)),
    Window(text="plain blue", related=(4.0, 8.0), reply=(4.0, 8.0)),
)
EPISODE = Episode(
    id="e",
    clip="e.mp4",
    task="new_object",
    grid=Grid(frame_interval=2.0, turns=6),
    queries=(Query(text="What?", time=0.0), Query(text="And now?", time=5.0)),
    windows=WINDOWS,
)
WITH_HISTORY = EPISODE.model_copy(
    update={"grid": Grid(start=2.0, frame_interval=2.0, turns=4), "history": (
        HistoryTurn(time=1.0, frame_times=(1.0,), text="Something striped and red"),
        HistoryTurn(time=2.0, frame_times=(2.0,), text=None),
    )}
)  # fmt: skip


class Recording(Judge):
    """The rule judge, keeping what it was asked; it abstains from replies that say `hm`."""

    name = version = "recording"

    def __init__(self):
        self.asked = []

    async def grade(self, item):
        self.asked.append(item)
        return Verdict(None, "hm") if "hm" in item.reply else await RuleJudge(5).grade(item)


def trajectory(*texts, index=0):
    """One action a text: None is silence, an empty one malformed."""
    kinds = ["silence" if text is None else "reply" if text else "malformed" for text in texts]
    actions = (Action((1,), (0.0,), text or "", kind, False) for text, kind in zip(texts, kinds, strict=True))
    return Trajectory("e", index, tuple(actions))


def collect(tmp_path, trajectory, episode=EPISODE, judge=None):
    cache = VerdictCache(tmp_path / "v.sqlite")
    return collect_evidence(judge or RuleJudge(5), cache, 5, {"e": episode}, [trajectory])[0]


def test_each_fact_by_hand(tmp_path):
    judge = Recording()
    # decisions at 2, 4, 6, 8, 10, 12 s; 4 s lies in both windows
    texts = ("Something red", "Something striped and red", None, "Something plain and blue", "", "Something red")
    evidence = collect(tmp_path, trajectory(*texts), judge=judge)
    assert evidence.kinds == ("reply", "reply", "silence", "reply", "malformed", "reply")
    expected = [[2, NAN], [4, 0], [NAN, NAN], [NAN, 4], [NAN, NAN], [NAN, NAN]]
    np.testing.assert_array_equal(evidence.levels, expected)
    np.testing.assert_array_equal(evidence.repeats, [0, 0, NAN, 0, 0, 1])
    assert evidence.outside.tolist() == [False, False, False, False, True, True]
    assert evidence.prefix_chars.tolist() == [0, 10, 0, 10, 0, 13]
    assert not evidence.abstained.any()
    repeats = [item for item in judge.asked if item.kind == "repeat"]
    assert repeats == [
        Grade("repeat", "What?", "Something red", "Something striped and red", 2),
        Grade("repeat", "And now?", "Something red\nSomething striped and red", "Something plain and blue", 2),
    ]


def test_a_window_is_graded_by_its_own_question_and_subtitles_are_none(tmp_path):
    said = [Query(text="Subtitle: Hello.", time=3.0), *EPISODE.queries[1:], Query(text="Last?", time=6.0)]
    judge = Recording()
    texts = (None, "plain", None, "plain and blue", None, None)
    collect(tmp_path, trajectory(*texts), EPISODE.model_copy(update={"queries": (EPISODE.queries[0], *said)}), judge)
    asked = [(item.kind, item.question, item.reference) for item in judge.asked]
    assert asked == [
        ("level", "What?", "striped red"),
        ("level", "What?", "plain blue"),  # at 4 s, after the subtitle
        ("level", "What?", "plain blue"),  # at 8 s: the window opened at 4 s, before the later questions
        ("repeat", "Last?", "plain"),
    ]


def test_a_duplicate_is_not_judged_again_in_its_window(tmp_path):
    judge = Recording()
    evidence = collect(tmp_path, trajectory("blue", "blue", "blue", "plain blue", None, None), judge=judge)
    np.testing.assert_array_equal(evidence.levels[:4], [[0, NAN], [NAN, 2], [NAN, NAN], [NAN, 4]])
    np.testing.assert_array_equal(evidence.repeats[:4], [0, 1, 1, 0])
    assert [item.reference for item in judge.asked if item.kind == "repeat"] == ["blue"]


def test_a_malformed_action_scores_nothing_in_its_windows(tmp_path):
    evidence = collect(tmp_path, trajectory(None, "", None, None, None, None))
    assert evidence.levels[1].tolist() == [0, 0]
    assert evidence.repeats[1] == 0
    assert evidence.spoke.tolist() == [False, True, False, False, False, False]


def test_history_counts_for_repeats_and_prefixes(tmp_path):
    evidence = collect(tmp_path, trajectory("Something red", "Something striped and red", None, None), WITH_HISTORY)
    np.testing.assert_array_equal(evidence.repeats, [1, 1, NAN, NAN])
    assert evidence.prefix_chars.tolist() == [10, 25, 0, 0]


def test_an_abstention_is_marked_and_never_a_score(tmp_path):
    evidence = collect(tmp_path, trajectory("red", "hm", None, "plain blue", None, None), judge=Recording())
    assert evidence.abstained.tolist() == [False, True, False, False, False, False]
    assert np.isnan(evidence.levels[1]).all()
    assert np.isnan(evidence.repeats[1])
    assert evidence.levels[3, 1] == 4


def test_trajectories_keep_their_order_and_need_an_episode(tmp_path):
    cache = VerdictCache(tmp_path / "v.sqlite")
    both = [trajectory("red", *[None] * 5, index=i) for i in (1, 0)]
    assert [e.index for e in collect_evidence(RuleJudge(5), cache, 5, {"e": EPISODE}, both)] == [1, 0]
    with pytest.raises(KeyError):
        collect_evidence(RuleJudge(5), cache, 5, {}, both)


said = st.sampled_from([None, None, "", "Something red", "Something striped and red", "plain blue", "hm", "blue"])


@given(st.lists(said, min_size=6, max_size=6), st.integers(0, 6))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_facts_depend_on_the_past_only(tmp_path, texts, turn):
    whole = collect(tmp_path, trajectory(*texts), judge=Recording())
    cut = collect(tmp_path, trajectory(*texts[:turn], *[None] * (6 - turn)), judge=Recording())
    assert whole.kinds[:turn] == cut.kinds[:turn]
    for name in ("levels", "repeats", "outside", "prefix_chars", "abstained"):
        np.testing.assert_array_equal(getattr(whole, name)[:turn], getattr(cut, name)[:turn], name)
    silent = collect(tmp_path, trajectory(*[None] * 6))
    for name in ("levels", "repeats", "outside", "prefix_chars", "abstained"):
        np.testing.assert_array_equal(getattr(cut, name)[turn:], getattr(silent, name)[turn:], name)
