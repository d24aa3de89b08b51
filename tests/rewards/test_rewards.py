"""The sweep against the slow way: silence what comes later, then score from scratch by the literal definitions."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise import config
from turnwise.credit import turnwise
from turnwise.episodes import Episode, Grid, Window
from turnwise.errors import UserError
from turnwise.records import Evidence
from turnwise.rewards import MMDuet2, Reward, build_reward, sweep, sweep_batch
from turnwise.rewards.sweep import REWARDS

WEIGHTS = {"pauc": 3.0, "repetition": 2.0, "outside": 0.5, "prefix": 2.0}


def episode(turns, spans, step=2.0):
    windows = tuple(Window(text="red", related=span, reply=span) for span in spans)
    grid = Grid(frame_interval=step, turns=turns)
    return Episode(id="e", clip="e.mp4", task="t", grid=grid, queries=(), windows=windows)


def evidence_of(episode, actions):
    """From one (kind, levels by window, repeats, prefix_chars) a turn; None where the judge abstains."""
    turns, windows = episode.turns, len(episode.windows)
    levels, repeats = np.full((turns, windows), np.nan), np.full(turns, np.nan)
    outside, abstained, prefix = np.zeros(turns, bool), np.zeros(turns, bool), np.zeros(turns, np.int64)
    for t, (kind, scores, repeat, chars) in enumerate(actions):
        if kind == "silence":
            continue
        inside = episode.windows_at(episode.grid.times[t])
        for w in inside:
            levels[t, w] = np.nan if scores[w] is None else scores[w]
        repeats[t] = np.nan if repeat is None else repeat
        outside[t], prefix[t] = not inside, chars
        abstained[t] = repeat is None or any(scores[w] is None for w in inside)
    return Evidence("e", 0, tuple(a[0] for a in actions), levels, repeats, outside, prefix, abstained)


@st.composite
def cases(draw):
    """An episode with windows that may overlap, lie between two decisions or after the last, and its evidence."""
    turns = draw(st.integers(1, 8))
    quarter = st.integers(0, 8 * turns + 8).map(lambda q: q / 4)
    spans = draw(st.lists(st.tuples(quarter, quarter).filter(lambda s: s[0] < s[1]), max_size=4).map(sorted))
    ep = episode(turns, spans)
    score = st.sampled_from([0, 1, 2, 3, 4, None])
    action = st.tuples(
        st.sampled_from(["silence", "reply", "reply", "malformed"]),
        st.lists(score, min_size=len(spans), max_size=len(spans)),
        st.sampled_from([0, 1, None]),
        st.sampled_from([0, 49, 50, 80]),
    )
    return ep, evidence_of(ep, draw(st.lists(action, min_size=turns, max_size=turns)))


def silenced(evidence, turn):
    """The evidence of the trajectory whose actions after `turn` are silence."""
    late = np.arange(len(evidence.kinds)) >= turn
    return replace(
        evidence,
        kinds=tuple("silence" if gone else kind for kind, gone in zip(evidence.kinds, late, strict=True)),
        levels=np.where(late[:, None], np.nan, evidence.levels),
        repeats=np.where(late, np.nan, evidence.repeats),
        outside=evidence.outside & ~late,
        prefix_chars=np.where(late, 0, evidence.prefix_chars),
        abstained=evidence.abstained & ~late,
    )


def from_scratch(ep, ev, omega, top=4, prefix_chars=50, released=False):
    """The four terms of a whole trajectory in exact fractions, by their definitions."""
    times = [Fraction(t) for t in ep.grid.times]
    omega = Fraction(omega)
    areas = []
    for w, window in enumerate(ep.windows):
        start, end = map(Fraction, window.reply)
        if start > times[-1] if released else not any(start <= t <= end for t in times):
            continue
        at, score, area = start, Fraction(1, 2), Fraction(0)
        for t, time in enumerate(times):
            if not np.isnan(ev.levels[t, w]):
                moved = start + (1 - omega) * (time - start)
                area, at, score = area + score * (moved - at), moved, Fraction(ev.levels[t, w])
        areas.append((area + score * (end - at)) / ((end - start) * top))
    replies = [t for t, kind in enumerate(ev.kinds) if kind != "silence"]
    judged = [t for t in replies if not np.isnan(ev.repeats[t])]
    share = lambda bad, among: -Fraction(sum(map(bool, bad)), len(among)) if among else Fraction(0)  # noqa: E731
    if released:
        for window in ep.windows:
            inside = [t for t in replies if window.reply[0] <= times[t] <= window.reply[1]]
            judged += [t for t in inside[1:] if not np.isnan(ev.repeats[t])]
        replies = [t for t in range(ep.turns) if not ep.windows_at(ep.grid.times[t])]
    everyone = range(ep.turns) if released else replies
    return {
        "pauc": sum(areas) / len(areas) if areas else Fraction(0),
        "repetition": share((ev.repeats[t] == 1 for t in judged), judged),
        "outside": share((ev.outside[t] for t in replies), replies),
        "prefix": share((ev.prefix_chars[t] >= prefix_chars for t in everyone), everyone),
    }


@given(cases(), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from(["paper", "released"]))
@settings(deadline=None, max_examples=200)
def test_the_scan_equals_scoring_every_prefix_from_scratch(case, omega, variant):
    ep, ev = case
    terms = MMDuet2(weights=WEIGHTS, top=4, omega=omega, prefix_chars=50, variant=variant).prefix_terms(ep, ev)
    for turn in range(ep.turns + 1):
        slow = from_scratch(ep, silenced(ev, turn), omega, released=variant == "released")
        assert terms.keys() == slow.keys()
        for name, value in slow.items():
            assert terms[name][turn] == pytest.approx(float(value), abs=1e-12), (name, turn)


@given(st.lists(cases(), min_size=1, max_size=6), st.sampled_from(["paper", "released"]))
@settings(deadline=None)
def test_a_ragged_batch_is_its_trajectories(judged, variant):
    reward = MMDuet2(weights=WEIGHTS, top=4, omega=0.5, prefix_chars=50, variant=variant)
    batch = reward.batch_terms(judged)
    slow = Reward.batch_terms(reward, judged)
    for i, (ep, ev) in enumerate(judged):
        for name, alone in reward.prefix_terms(ep, ev).items():
            assert np.array_equal(batch[name][i, : ep.turns + 1], alone), name
            assert (batch[name][i, ep.turns :] == alone[-1]).all()
            assert np.array_equal(batch[name][i], slow[name][i])


def test_groups_of_unequal_length_are_swept_in_one_call():
    short, long = episode(2, [(0.0, 4.0)]), episode(5, [(2.0, 9.0), (4.0, 6.0)])
    said = [("reply", [4], 0, 0), ("silence", None, None, 0)]
    more = [("reply", [4, 3], 0, 0)] * 5
    groups = [(short, [evidence_of(short, said)] * 2), (long, [evidence_of(long, more)] * 3)]
    reward = MMDuet2(WEIGHTS, 4, 0.5, 50)
    for swept, (ep, evidence) in zip(sweep_batch(reward, groups), groups, strict=True):
        alone = sweep(reward, ep, evidence)
        assert swept.scores.shape == (len(evidence), ep.turns + 1)
        assert np.array_equal(swept.scores, alone.scores)
        assert swept.terms.keys() == alone.terms.keys()


def test_by_hand():
    # Decisions at 2, 4, ..., 12 s. Window A [2, 6], window B [8, 12], S = 4, omega = 0.
    ep = episode(6, [(2.0, 6.0), (8.0, 12.0)])
    actions = [
        ("silence", None, None, 0),
        ("reply", [4, None], 0, 0),  # at 4 s, half of A is left: A = (0.5 * 2 + 4 * 2) / 16
        ("silence", None, None, 0),
        ("malformed", [None, 0], 0, 0),  # at 8 s, all of B is left: B = 0
        ("reply", [None, 4], 1, 60),  # at 10 s: B = (0 * 2 + 4 * 2) / 16
        ("reply", [None, 4], None, 0),  # at 12 s, nothing of B is left
    ]
    ev = evidence_of(ep, actions)
    terms = MMDuet2(weights=WEIGHTS, top=4, omega=0.0, prefix_chars=50).prefix_terms(ep, ev)
    a, silent = 9 / 16, 0.125
    windows = [(silent, silent), (silent, silent), (a, silent), (a, silent), (a, 0.0), (a, 0.5), (a, 0.5)]
    assert terms["pauc"].tolist() == pytest.approx([sum(w) / 2 for w in windows], abs=1e-15)
    assert terms["repetition"].tolist() == pytest.approx([0, 0, 0, 0, 0, -1 / 3, -1 / 3], abs=1e-15)
    assert terms["prefix"].tolist() == pytest.approx([0, 0, 0, 0, 0, -1 / 3, -1 / 4], abs=1e-15)
    assert not terms["outside"].any()


def test_a_reply_outside_dilutes_the_share_of_repeats():
    ep = episode(3, [(2.0, 2.5)])
    ev = evidence_of(ep, [("reply", [4], 0, 0), ("reply", None, 1, 0), ("reply", None, 0, 0)])
    terms = MMDuet2(weights=WEIGHTS, top=4, omega=0.5, prefix_chars=50).prefix_terms(ep, ev)
    assert terms["repetition"].tolist() == pytest.approx([0, 0, -1 / 2, -1 / 3])
    assert terms["outside"].tolist() == pytest.approx([0, 0, -1 / 2, -2 / 3])


@given(st.data())
@settings(deadline=None)
def test_a_group_sweeps_to_scores_that_credit_takes(data):
    ep, _ = case = data.draw(cases())
    silent = evidence_of(ep, [("silence", None, None, 0)] * ep.turns)
    reward = build_reward(config.MMDuet2Reward(name="mmduet2", **WEIGHTS, omega=0.5, prefix_chars=50), levels=5)
    group = sweep(reward, ep, [silent, case[1], silent])
    assert group.scores.shape == (3, ep.turns + 1)
    assert group.weights == WEIGHTS
    total = sum(weight * group.terms[name] for name, weight in WEIGHTS.items())
    np.testing.assert_allclose(group.scores, total, atol=1e-12)
    assert (group.scores[0] == group.scores[0, 0]).all()
    assert turnwise(group).turn.shape == (3, ep.turns)


def test_the_released_code_differs_where_it_is_said_to():
    # Decisions at 2, 4, 6, 8 s. Windows [2, 6] and [4, 6] overlap, [7, 7.5] holds no decision, [8.5, 9] starts too late.
    ep = episode(4, [(2.0, 6.0), (4.0, 6.0), (7.0, 7.5), (8.5, 9.0)])
    said = [("reply", [4, 0, 0, 0], 0, 0), ("reply", [4, 4, 0, 0], 1, 60), ("silence", None, None, 0)]
    ev = evidence_of(ep, [*said, ("reply", None, 0, 0)])
    paper, released = (MMDuet2(WEIGHTS, 4, 0.5, 50, v).prefix_terms(ep, ev) for v in ("paper", "released"))
    assert paper["pauc"][-1] == pytest.approx((1.0 + 1.0) / 2)
    assert released["pauc"][-1] == pytest.approx((1.0 + 1.0 + 0.125) / 3)
    assert paper["repetition"][-1] == pytest.approx(-1 / 3)
    assert released["repetition"][-1] == pytest.approx(-2 / 4)  # the second reply of [2, 6] counts twice
    assert paper["outside"][-1] == pytest.approx(-1 / 3)
    assert released["outside"][-1] == -1.0  # 8 s is the one turn outside every window
    assert paper["prefix"][-1] == pytest.approx(-1 / 3)
    assert released["prefix"][-1] == -1 / 4


def test_the_name_says_which_reward_is_built(monkeypatch):
    monkeypatch.setitem(REWARDS, "other", lambda _, top: SimpleNamespace(top=top))
    spec = config.MMDuet2Reward(name="mmduet2", **WEIGHTS, omega=0.5, prefix_chars=50)
    other = build_reward(spec.model_copy(update={"name": "other"}), levels=5)
    assert (type(other), other.top) == (SimpleNamespace, 4)
    assert isinstance(build_reward(spec, levels=5), MMDuet2)


def test_all_silent_scores_what_mmduet2_gives_it():
    ep = episode(2, [(0.0, 4.0)])
    reward = MMDuet2(weights=WEIGHTS, top=4, omega=0.5, prefix_chars=50)
    silent = evidence_of(ep, [("silence", None, None, 0)] * 2)
    assert sweep(reward, ep, [silent]).scores.tolist() == [[0.375] * 3]


def test_refusals():
    ep = episode(2, [(0.0, 4.0)])
    silent = evidence_of(ep, [("silence", None, None, 0)] * 2)
    rubric = SimpleNamespace(name="rubric", prefix_causal=False, weights={})
    with pytest.raises(UserError, match=r"reward\.name: rubric"):
        sweep(rubric, ep, [silent])
    longer = episode(3, [(0.0, 4.0)])
    with pytest.raises(ValueError, match="e: 2 turns, where e has 3"):
        sweep(MMDuet2(WEIGHTS, 4, 0.5, 50), longer, [silent])
