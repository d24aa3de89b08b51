"""From evidence to the prefix scores of a group: what a trajectory would have been paid had it fallen silent."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from turnwise import config
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.records import Evidence, Group
from turnwise.rewards.base import Reward
from turnwise.rewards.mmduet2 import MMDuet2
from turnwise.rewards.streampro import StreamPro
from turnwise.rewards.thinkstream import ThinkStream


def _mmduet2(spec: config.MMDuet2Reward, top: int) -> Reward:
    return MMDuet2(spec.weights, top, spec.omega, spec.prefix_chars, spec.variant)


def _thinkstream(spec: config.ThinkStreamReward, top: int) -> Reward:
    return ThinkStream(spec.weights, top, spec.slack, spec.decay_turns)


def _streampro(spec: config.StreamProReward, top: int) -> Reward:
    return StreamPro(spec.weights, top, spec.reach, spec.judged == "prefix")


REWARDS: dict[str, Callable[[Any, int], Reward]] = {
    "mmduet2": _mmduet2,
    "thinkstream": _thinkstream,
    "streampro": _streampro,
}
"""Name in `params.yaml` -> the reward of its section and of the best level."""


def build_reward(spec: config.Reward, levels: int) -> Reward:
    """The reward of the configuration, for a judge of `levels` levels."""
    return REWARDS[spec.name](spec, levels - 1)


def sweep(reward: Reward, episode: Episode, evidence: Sequence[Evidence]) -> Group:
    """Prefix scores [G, T + 1] of one episode's trajectories, in the order of `evidence`; see `sweep_batch`."""
    return sweep_batch(reward, [(episode, evidence)])[0]


def sweep_batch(reward: Reward, groups: Sequence[tuple[Episode, Sequence[Evidence]]]) -> list[Group]:
    """Prefix scores [G, T + 1] of each group, all in one scan; `anchor` stays None. T may differ between groups.

    Deterministic: no roll-out, no judge. Raises UserError for a reward that is not prefix-causal, ValueError for
    evidence of another episode or of another number of turns than the grid's.
    """
    if not reward.prefix_causal:
        raise UserError(
            f"params.yaml: reward.name: {reward.name} scores replies by later ones, so a prefix has no score, which every "
            "turn rule needs; choose a prefix-causal reward, or have its rubric judged on each prefix"
        )
    judged = [(episode, one) for episode, evidence in groups for one in evidence]
    for episode, one in judged:
        if (one.episode, one.turns) != (episode.id, episode.turns):
            raise ValueError(f"{one.episode}: {one.turns} turns, where {episode.id} has {episode.turns}")
    terms = reward.batch_terms(judged)
    scores = np.sum([weight * terms[name] for name, weight in reward.weights.items()], axis=0)
    swept, start = [], 0
    for episode, evidence in groups:
        part = np.s_[start : start + len(evidence), : episode.turns + 1]
        own = {name: terms[name][part] for name in reward.weights}
        swept.append(Group(scores=scores[part], terms=own, weights=dict(reward.weights)))
        start += len(evidence)
    return swept
