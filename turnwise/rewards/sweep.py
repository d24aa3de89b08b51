"""From evidence to the prefix scores of a group: what a trajectory would have been paid had it fallen silent."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from turnwise import config
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.records import Evidence, Float, Group
from turnwise.rewards.mmduet2 import MMDuet2


class Reward(Protocol):
    """A reward is its prefix scores, by term; its total is weights times terms.

    One of your own may inherit from this class and leave `batch_terms` as it is.
    """

    @property
    def name(self) -> str:
        """As in `params.yaml`."""

    @property
    def prefix_causal(self) -> bool:
        """False: the score of a reply may depend on later ones, so that a prefix has no score of its own."""

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each term."""

    def prefix_terms(self, episode: Episode, evidence: Evidence) -> dict[str, Float]:
        """Each term [T + 1], unweighted, of the trajectory whose actions after turn t = 0..T are silence."""

    def batch_terms(self, judged: Sequence[tuple[Episode, Evidence]]) -> dict[str, Float]:
        """`prefix_terms` of B trajectories [B, T + 1], with T the longest; shorter rows hold their last value.

        This way is one call a trajectory; a reward that can do better says so by a method of its own.
        """
        each = [self.prefix_terms(episode, evidence) for episode, evidence in judged]
        longest = max(evidence.turns for _, evidence in judged)
        return {
            name: np.stack([np.pad(one[name], (0, longest + 1 - len(one[name])), mode="edge") for one in each])
            for name in self.weights
        }


REWARDS: dict[str, Callable[..., Reward]] = {"mmduet2": MMDuet2}
"""Name in `params.yaml` -> the reward of its weights and settings."""


def build_reward(spec: config.Reward, levels: int) -> Reward:
    """The reward of the configuration, for a judge of `levels` levels."""
    weights = {"pauc": spec.pauc, "repetition": spec.repetition, "outside": spec.outside, "prefix": spec.prefix}
    return REWARDS[spec.name](weights=weights, top=levels - 1, omega=spec.omega, prefix_chars=spec.prefix_chars)


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
            f"params.yaml: reward.name: {reward.name} scores replies by later ones, so prefixes have no score; "
            "choose a prefix-causal reward"
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
