"""The experiment's configuration: typed, complete, and read from `params.yaml` here and nowhere else.

`params.yaml` is generated from profiles by `turnwise profile use NAME...`; edit it freely afterwards.
"""

from turnwise.config.judges import Budget, Judges, JudgeSpec, Price, Server
from turnwise.config.params import BENCHMARK_LEVELS, PARAMS, Params, compose, merge, read_params, read_yaml, validate
from turnwise.config.rewards import MMDuet2Reward, Reward, StreamProReward, ThinkStreamReward
from turnwise.config.sections import (
    Aggregation,
    Arm,
    Credit,
    CreditRule,
    Data,
    Evaluate,
    EventRule,
    Horizon,
    Lora,
    Matching,
    Policy,
    Rl,
    Rollout,
    Runtime,
    Sft,
    Stream,
)

__all__ = [
    "BENCHMARK_LEVELS",
    "PARAMS",
    "Aggregation",
    "Arm",
    "Budget",
    "Credit",
    "CreditRule",
    "Data",
    "Evaluate",
    "EventRule",
    "Horizon",
    "JudgeSpec",
    "Judges",
    "Lora",
    "MMDuet2Reward",
    "Matching",
    "Params",
    "Policy",
    "Price",
    "Reward",
    "Rl",
    "Rollout",
    "Runtime",
    "Server",
    "Sft",
    "Stream",
    "StreamProReward",
    "ThinkStreamReward",
    "compose",
    "merge",
    "read_params",
    "read_yaml",
    "validate",
]
