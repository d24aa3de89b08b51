"""Rewards: from a trajectory's evidence to its prefix scores."""

from turnwise.rewards.base import Reward
from turnwise.rewards.mmduet2 import MMDuet2
from turnwise.rewards.pauc import pauc
from turnwise.rewards.streampro import StreamPro
from turnwise.rewards.sweep import build_reward, sweep, sweep_batch
from turnwise.rewards.thinkstream import ThinkStream

__all__ = ["MMDuet2", "Reward", "StreamPro", "ThinkStream", "build_reward", "pauc", "sweep", "sweep_batch"]
