"""The profiles' rewards know the oracle from the rest, by the rule judge's evidence."""

import numpy as np
import pytest

from turnwise.config import compose, merge, validate
from turnwise.episodes import read_episodes
from turnwise.judging import VerdictCache, build_judge, collect_evidence
from turnwise.records import Action, Trajectory
from turnwise.rewards import build_reward, sweep
from turnwise.worlds import scripted


@pytest.mark.parametrize(
    ("profile", "change", "spam"),
    [
        ("thinkstream", {}, pytest.approx(0)),
        ("thinkstream", {"efficiency": 0.2}, pytest.approx(0.126, abs=0.01)),
        ("streampro", {}, pytest.approx(0.79, abs=0.05)),
    ],
)
def test_scripted_policies_order_by_the_profiles_reward(profile, change, spam, world, tmp_path):
    """`spam`: what saying the right thing at every turn costs; three terms of ThinkStream's take nothing for it."""
    params = validate(merge(compose([profile]), {"reward": change}), profile)
    reward = build_reward(params.reward, params.judge.train.levels)
    judge, cache = build_judge(params.judge.train), VerdictCache(tmp_path / "v.sqlite")
    means = {}
    for who in ("oracle", "late", "silent", "repeater"):
        scores = []
        for episode in read_episodes(world / "rl.jsonl"):
            said = scripted(episode, who)
            actions = tuple(Action((), (), text or "", "reply" if text else "silence", False, 15) for text in said)
            group = [Trajectory(episode.id, 0, actions)]
            evidence = collect_evidence(judge, cache, 5, {episode.id: episode}, group, reward.asks)
            scores.append(sweep(reward, episode, evidence).rewards[0])
        means[who] = np.mean(scores)
    assert means["silent"] == pytest.approx(reward.weights["format"])
    assert means["oracle"] > means["late"] > means["silent"]
    assert means["oracle"] - means["repeater"] == spam
