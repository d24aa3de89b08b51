"""Everything that touches a model: loading, conversations, positions, vision features, roll-out, log-probs."""

from turnwise.policy.embedded import build_embedded
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded, load_policy, trainable_parameters
from turnwise.policy.logprobs import Batch, action_logprobs, learning_batch
from turnwise.policy.sampler import HfSampler, Sampler
from turnwise.policy.vllm_engine import VllmSampler

__all__ = [
    "Batch",
    "FrameStore",
    "HfSampler",
    "Loaded",
    "Sampler",
    "VllmSampler",
    "action_logprobs",
    "build_embedded",
    "learning_batch",
    "load_policy",
    "trainable_parameters",
]
