"""Scripted policies and demonstrations under the reward that RL will use."""

import numpy as np
import pytest

from turnwise.episodes import Demonstration, read_demonstrations, read_episodes
from turnwise.judging import VerdictCache, build_judge, collect_evidence
from turnwise.records import Action, Trajectory
from turnwise.rewards import build_reward, sweep
from turnwise.worlds import scripted
from turnwise.worlds.demonstrations import demonstrate


@pytest.fixture(scope="module")
def rewards(params, tmp_path_factory):
    """A function: the reward of each (episode, actions)."""
    levels, judge = params.judge.train.levels, build_judge(params.judge.train)
    cache = VerdictCache(tmp_path_factory.mktemp("cache") / "verdicts.sqlite")
    reward = build_reward(params.reward, levels)

    def score(pairs):
        said = [
            tuple(Action((), (), text or "", "reply" if text else "silence", False) for text in a) for _, a in pairs
        ]
        trajectories = [Trajectory(episode.id, 0, actions) for (episode, _), actions in zip(pairs, said, strict=True)]
        evidence = collect_evidence(judge, cache, levels, {episode.id: episode for episode, _ in pairs}, trajectories)
        return np.array([sweep(reward, e, [found]).rewards[0] for (e, _), found in zip(pairs, evidence, strict=True)])

    return score


def test_scripted_policies_order_by_reward(world, rewards):
    episodes = read_episodes(world / "rl.jsonl")
    whos = ("oracle", "late", "silent", "repeater")
    means = [rewards([(e, scripted(e, who)) for e in episodes]).mean() for who in whos]
    assert means == sorted(means, reverse=True)
    assert means[2] == pytest.approx(3 * 0.125)
    assert min(-np.diff(means)) > 0.2


def test_each_task_rewards_the_oracle_and_not_the_repeater(world, rewards):
    for episode in read_episodes(world / "rl.jsonl"):
        oracle, repeater = rewards([(episode, scripted(episode, who)) for who in ("oracle", "repeater")])
        assert oracle > 2 > 0.375 > repeater


def test_an_average_demonstration_beats_silence_but_not_the_oracle(world, rewards):
    found = read_demonstrations(world / "demonstrations.jsonl")
    mean = rewards([(d.episode, d.actions) for d in found]).mean()
    assert 0.375 + 0.5 < mean < rewards([(d.episode, scripted(d.episode, "oracle")) for d in found]).mean() - 0.5


def test_demonstrations_are_silent_in_most_turns(world):
    actions = [action for d in read_demonstrations(world / "demonstrations.jsonl") for action in d.actions]
    assert 0.05 < np.mean([action is not None for action in actions]) < 0.3


FAULTS = ("late", "repeated", "wrong", "stray", "missed")


def faulty(data, episode, **shares: float) -> Demonstration:
    return demonstrate(np.random.default_rng(0), episode, data.model_copy(update=dict.fromkeys(FAULTS, 0.0) | shares))


def test_each_fault_does_what_it_says(data, world):
    for episode in read_episodes(world / "rl.jsonl"):
        spoken = {
            name: [turn for turn, action in enumerate(faulty(data, episode, **shares).actions) if action]
            for name, shares in {"none": {}, **{fault: {fault: 1.0} for fault in FAULTS}}.items()
        }
        inside = [turn for turn, time in enumerate(episode.grid.times) if episode.windows_at(time)]
        asked = [turn for turn, time in enumerate(episode.grid.times) if time >= episode.queries[0].time]
        assert spoken["none"] == [turn for turn, said in enumerate(scripted(episode, "oracle")) if said]
        assert spoken["late"] == [turn + 1 for turn in spoken["none"]]
        assert spoken["wrong"] == spoken["none"]
        assert set(spoken["repeated"]) > set(spoken["none"])
        assert spoken["stray"] == sorted({*spoken["none"], *set(asked) - set(inside)})
        assert spoken["missed"] == []


def test_captions_answer_about_their_one_frame(world):
    captions = read_demonstrations(world / "captions.jsonl")
    assert {d.episode.task for d in captions} == {"caption", "amount", "choice"}
    assert all(d.episode.turns == 1 and d.actions[0] for d in captions)
    assert any(d.actions[0].startswith("There is nothing") for d in captions)


def test_quoted_words_are_said(world):
    quoting = [e for e in read_episodes(world / "rl.jsonl") if 'output "' in e.queries[0].text]
    for episode in quoting:
        word = episode.queries[0].text.split('"')[1]
        assert any(word in action for action in scripted(episode, "oracle") if action)
    assert quoting
