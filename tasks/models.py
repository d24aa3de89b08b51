"""How a stage gets its policy and its sampler."""

from pathlib import Path

import torch

from turnwise import config
from turnwise.policy import FrameStore, HfSampler, Loaded, Sampler, VllmSampler, load_policy
from turnwise.protocols import protocol


def policy_of(params: config.Params, folder: Path | None) -> Loaded:
    """The policy in a model directory (None: the one that params names), with the stage's number of torch threads."""
    torch.set_num_threads(params.runtime.threads)
    return load_policy(params.policy, protocol(params.protocol), folder, params.runtime.device)


def sampler_of(params: config.Params, policy: Loaded, frames: FrameStore) -> Sampler:
    """The experiment's sampler, with its caps."""
    settings = params.rollout
    caps = {"max_action_tokens": settings.max_action_tokens, "max_context": settings.max_context}
    if settings.engine == "vllm":
        return VllmSampler(policy, frames, **caps)
    return HfSampler(policy, frames, **caps)
