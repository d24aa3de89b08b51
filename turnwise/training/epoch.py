"""Which episodes an epoch meets in which order, and the seeds of its roll-outs; the same for all arms."""

from collections.abc import Sequence

import numpy as np

from turnwise.episodes import Episode


def epoch_order(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """The episodes in the order in which the epoch of this seed meets them."""
    return [episodes[i] for i in np.random.default_rng([seed, 1]).permutation(len(episodes))]


def rollout_seed(seed: int, update: int) -> int:
    """Seed of the roll-outs of an update (1-based; 0 is the validation roll-out's, greedy)."""
    return seed * 1_000_003 + update
