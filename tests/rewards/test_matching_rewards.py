"""ThinkStream's and StreamPro's rewards against the slow way: silence what comes later, then score from scratch."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.config import StreamProReward, ThinkStreamReward
from turnwise.episodes import Episode, Grid, Window
from turnwise.errors import UserError
from turnwise.records import Evidence
from turnwise.rewards import StreamPro, ThinkStream, build_reward, sweep

THINK = ThinkStream(
    {"format": 0.2, "time": 0.2, "correctness": 0.4, "efficiency": 0.2}, top=4, slack=3.0, decay_turns=5
)
STREAM = StreamPro({"format": 0.1, "turn": 0.45, "rubric": 0.45}, top=4, reach=8.0, per_prefix=True)


def episode(turns, starts, step=2.0):
    windows = tuple(Window(text="red", related=(s, s + 3), reply=(s, s + 3)) for s in starts)
    grid = Grid(frame_interval=step, turns=turns)
    return Episode(id="e", clip="e.mp4", task="t", grid=grid, queries=(), windows=windows)


def evidence_of(reward, ep, actions):
    """From one (kind, level by window, thought tokens, rubric) a turn; a level of None is an abstention."""
    turns, asks = ep.turns, reward.asks(ep)
    answers, rubric, met = np.full((turns, len(ep.windows)), np.nan), np.zeros(turns), 0
    for t, (kind, levels, _, checkpoints) in enumerate(actions):
        if kind == "reply":
            met = checkpoints
            for w in np.flatnonzero(asks.answers[t]):
                answers[t, w] = np.nan if levels[w] is None else levels[w]
        rubric[t] = met
    return Evidence(
        episode="e",
        index=0,
        kinds=tuple(a[0] for a in actions),
        levels=np.full((turns, len(ep.windows)), np.nan),
        repeats=np.full(turns, np.nan),
        outside=np.zeros(turns, bool),
        prefix_chars=np.zeros(turns, np.int64),
        abstained=np.zeros(turns, bool),
        answers=answers,
        rubric=rubric,
        thought_tokens=np.array([a[2] for a in actions]),
    )


@st.composite
def cases(draw):
    """An episode whose windows may start together, between decisions or after the last, with what was done."""
    turns = draw(st.integers(1, 9))
    starts = draw(st.lists(st.integers(0, 4 * turns + 8).map(lambda q: q / 2), max_size=4).map(sorted))
    action = st.tuples(
        st.sampled_from(["silence", "reply", "reply", "malformed"]),
        st.lists(st.sampled_from([0, 1, 2, 4, 4, None]), min_size=len(starts), max_size=len(starts)),
        st.sampled_from([0, 4, 5, 12, 15, 30]),
        st.integers(0, 3),
    )
    return episode(turns, starts), draw(st.lists(action, min_size=turns, max_size=turns))


def silenced(evidence, turn):
    """The evidence of the trajectory whose actions after `turn` are silence, which thinks nothing."""
    late = np.arange(evidence.turns) >= turn
    standing = evidence.rubric[turn - 1] if turn else 0.0
    return replace(
        evidence,
        kinds=tuple("silence" if gone else kind for kind, gone in zip(evidence.kinds, late, strict=True)),
        answers=np.where(late[:, None], np.nan, evidence.answers),
        rubric=np.where(late, standing, evidence.rubric),
        thought_tokens=np.where(late, 0, evidence.thought_tokens),
    )


def share(values, of):
    return sum(values, Fraction(0)) / of if of else Fraction(0)


def thinkstream(ep, ev):
    """The terms of a whole trajectory, window by window, in exact fractions."""
    turns, starts = range(ep.turns), [Fraction(w.reply[0]) for w in ep.windows]
    times = [Fraction(t) for t in ep.grid.times]
    own = {w: [] for w in range(len(starts))}
    for t in turns:
        begun = [w for w in own if starts[w] <= times[t]]
        if own:
            own[begun[-1] if begun else 0].append(t)
    own = {w: mine for w, mine in own.items() if mine}
    time, right, few = [], [], []
    for w, mine in own.items():
        answered = [t for t in mine if not np.isnan(ev.answers[t, w])]
        late = abs(times[answered[0]] - starts[w]) - 3 if answered else None
        time.append(Fraction(0) if late is None else min(Fraction(1), max(Fraction(0), 1 - late / 10)))
        right.append(Fraction(int(bool(answered) and ev.answers[answered[0], w] == 4)))
        count = sum(ev.kinds[t] != "silence" for t in mine)
        few.append(Fraction(0) if not 1 <= count <= 10 else 1 - Fraction(ceil((count - 1) / 3), 4))
    thought = [min(Fraction(1), Fraction(int(ev.thought_tokens[t]) // 5 * 5, 15)) for t in turns]
    return {
        "format": share((Fraction(ev.kinds[t] != "malformed") for t in turns), ep.turns),
        "time": share(time, len(own)),
        "correctness": share(right, len(own)),
        "efficiency": share(thought, ep.turns) * share(few, len(own)),
    }


def streampro(ep, ev):
    """The terms of a whole trajectory, matched from scratch."""
    times, starts = [Fraction(t) for t in ep.grid.times], [Fraction(w.reply[0]) for w in ep.windows]
    near = lambda t, w: abs(times[t] - starts[w]) <= 8  # noqa: E731
    turns, used, total = range(ep.turns), set(), Fraction(0)
    windows = [w for w in range(len(starts)) if any(near(t, w) for t in turns)]
    for w in windows:
        open_ = [t for t in turns if near(t, w) and t not in used and not np.isnan(ev.answers[t, w])]
        worth = {t: 1 - abs(times[t] - starts[w]) / 8 + Fraction(ev.answers[t, w]) / 4 for t in open_}
        if worth:
            best = max(worth, key=lambda t: (worth[t], -t))
            used.add(best)
            total += worth[best]
    replies = [
        t
        for t in turns
        if ev.kinds[t] == "malformed"
        or (ev.kinds[t] == "reply" and not (any(near(t, w) for w in windows) and np.isnan(ev.answers[t]).all()))
    ]
    return {
        "format": share((Fraction(kind != "malformed") for kind in ev.kinds), ep.turns),
        "turn": 2 * total / max(1, len(replies) + len(windows)),
        "rubric": Fraction(ev.rubric[-1]) / 3,
    }


@pytest.mark.parametrize(("reward", "slow"), [(THINK, thinkstream), (STREAM, streampro)])
@given(case=cases())
@settings(deadline=None, max_examples=200)
def test_prefix_scores_equal_scoring_every_prefix_from_scratch(reward, slow, case):
    ep, actions = case
    ev = evidence_of(reward, ep, actions)
    fast = reward.prefix_terms(ep, ev)
    for turn in range(ep.turns + 1):
        wanted = slow(ep, silenced(ev, turn))
        assert fast.keys() == wanted.keys()
        for name, value in wanted.items():
            assert fast[name][turn] == pytest.approx(float(value), abs=1e-12), (name, turn)


@given(cases())
@settings(deadline=None, max_examples=30)
def test_silence_is_worth_the_same_to_all_of_a_group(case):
    ep, actions = case
    for reward in (THINK, STREAM):
        group = sweep(reward, ep, [evidence_of(reward, ep, actions), evidence_of(reward, ep, actions[::-1])])
        assert group.scores[0, 0] == group.scores[1, 0] == group.weights["format"]


def test_a_later_reply_may_take_a_window_from_an_earlier_one():
    # Windows at 4 and 8 s; decisions at 2, 4, ... The reply at 4 s takes the first window, so the one at 2 s is left with
    # the second, out of its reach of 4 s.
    ep = episode(4, [4.0, 8.0])
    reward = replace(STREAM, reach=4.0, weights={"turn": 1.0, "format": 0.0})
    said = [("reply", [4, 4], 0, 0), ("reply", [4, 4], 0, 0), ("silence", [], 0, 0), ("silence", [], 0, 0)]
    terms = reward.prefix_terms(ep, evidence_of(reward, ep, said))
    assert terms["turn"].tolist() == pytest.approx([0, 2 * 1.5 / 3, 2 * 2.0 / 4, 1.0, 1.0])
    assert reward.prefix_causal


def test_an_early_first_answer_is_the_one_that_counts():
    ep = episode(6, [8.0])
    said = [("reply", [0], 20, 0), *[("silence", [], 20, 0)] * 2, ("reply", [4], 20, 0), *[("silence", [], 20, 0)] * 2]
    terms = THINK.prefix_terms(ep, evidence_of(THINK, ep, said))
    assert terms["time"].tolist() == pytest.approx([0] + [0.7] * 6)
    assert not terms["correctness"].any()
    assert terms["efficiency"].tolist() == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6 * 0.75, 5 / 6 * 0.75, 0.75])


def test_a_rubric_of_whole_dialogues_is_refused_with_the_reason():
    ep = episode(2, [2.0])
    whole = replace(STREAM, per_prefix=False)
    with pytest.raises(UserError, match=r"streampro scores replies by later ones.*rubric judged on each prefix"):
        sweep(whole, ep, [evidence_of(STREAM, ep, [("silence", [], 0, 0)] * 2)])
    assert replace(whole, weights={"format": 0.1, "turn": 0.9}).prefix_causal


def test_evidence_of_another_reward_is_refused():
    ep = episode(1, [2.0])
    bare = replace(evidence_of(STREAM, ep, [("silence", [], 0, 0)]), answers=None, rubric=None, thought_tokens=None)
    for reward in (THINK, STREAM):
        with pytest.raises(ValueError, match="judge again"):
            reward.prefix_terms(ep, bare)


def test_the_section_names_the_reward_and_its_optional_terms():
    common = {"format": 0.2, "time": 0.2, "correctness": 0.4, "slack": 3.0, "decay_turns": 5}
    three = build_reward(ThinkStreamReward(name="thinkstream", efficiency=0.0, **common), levels=5)
    four = build_reward(ThinkStreamReward(name="thinkstream", efficiency=0.2, **common), levels=5)
    assert (three.top, list(three.weights)) == (4, ["format", "time", "correctness"])
    assert list(four.weights) == [*three.weights, "efficiency"]
    spec = StreamProReward(name="streampro", format=0.1, turn=0.9, rubric=0.0, reach=8.0, judged="prefix")
    assert not build_reward(spec, levels=5).asks(episode(1, [])).rubric
