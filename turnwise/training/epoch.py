"""Which episodes an epoch meets in which order, how much of each, and the seeds of its roll-outs; the same for all arms."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from turnwise.config import Rl
from turnwise.episodes import Episode


def epoch_order(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """The episodes in the order in which the epoch of this seed meets them."""
    return [episodes[i] for i in np.random.default_rng([seed, 1]).permutation(len(episodes))]


def rollout_seed(seed: int, update: int) -> int:
    """Seed of the roll-outs of an update (1-based; 0 is the validation roll-out's, greedy)."""
    return seed * 1_000_003 + update


def shortened(episode: Episode, rl: Rl, seed: int, update: int) -> Episode:
    """The episode with the turns that its group is trained on at an update (1-based), by `rl.horizon`.

    All of the group share them, so T is equal within a group. `uniform`: drawn from (seed, update, episode), from
    `shortest` to T. `curriculum`: rises linearly from `shortest` at update 1 to T after a share `ramp` of the updates.
    """
    horizon, shortest = rl.horizon, min(rl.horizon.shortest, episode.turns)
    if horizon.kind == "fixed":
        return episode
    if horizon.kind == "uniform":
        name = int.from_bytes(hashlib.sha256(episode.id.encode()).digest()[:7], "big")
        return episode.until(int(np.random.default_rng([seed, 3, update, name]).integers(shortest, episode.turns + 1)))
    share = min(1.0, (update - 1) / max(1, math.ceil(horizon.ramp * rl.updates)))
    return episode.until(shortest + round(share * (episode.turns - shortest)))
