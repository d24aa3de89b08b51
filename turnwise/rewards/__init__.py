"""Rewards: from a trajectory's evidence to its prefix scores."""

from turnwise.rewards.mmduet2 import MMDuet2
from turnwise.rewards.pauc import pauc
from turnwise.rewards.sweep import Reward, build_reward, sweep, sweep_batch

__all__ = ["MMDuet2", "Reward", "build_reward", "pauc", "sweep", "sweep_batch"]
