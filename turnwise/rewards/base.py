"""What every reward is: prefix scores by term, from evidence; and what the rewards share."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from turnwise.episodes import Episode
from turnwise.records import Asks, Bool, Evidence, Float


class Reward(Protocol):
    """A reward is its prefix scores, by term; its total is weights times terms.

    One of your own may inherit from this class and leave `asks` and `batch_terms` as they are.
    """

    @property
    def name(self) -> str:
        """As in `params.yaml`."""

    @property
    def prefix_causal(self) -> bool:
        """False: the score of a reply may depend on later ones, so that a prefix has no score of its own."""

    weights: dict[str, float]
    """Weight of each term."""

    def asks(self, episode: Episode) -> Asks:  # noqa: ARG002
        """What is to be judged for this reward beside the facts that every evidence holds."""
        return Asks()

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


def well_formed(evidence: Evidence) -> Float:
    """[T + 1] share of the T actions that are well-formed; silence is."""
    malformed = np.array([kind == "malformed" for kind in evidence.kinds])
    return 1 - np.concatenate([[0], np.cumsum(malformed)]) / evidence.turns


def replied(evidence: Evidence) -> Bool:
    """[T] well-formed replies."""
    return np.array([kind == "reply" for kind in evidence.kinds])


def answers_of(evidence: Evidence, reward: str) -> Float:
    """[T, W] levels of the replies that the reward asked for. Raises ValueError for evidence collected for another."""
    if evidence.answers is None:
        raise ValueError(f"{evidence.episode}: this evidence was not collected for the reward {reward}; judge again")
    return evidence.answers
