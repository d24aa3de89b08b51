"""A policy in memory: the model, its tokenizer and image processor, and how it writes silence and replies.

The tokenizer and the PIL image processor are loaded each by itself: the whole AutoProcessor and the video processors
need torchvision, and frames enter as images.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.utils import logging

from turnwise.config import Policy
from turnwise.errors import UserError
from turnwise.files import replacing
from turnwise.protocols import Protocol
from turnwise.records import Action

logging.disable_progress_bar()

FAMILIES: dict[str, type[PreTrainedModel]] = {
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
}
BANNED = -1e30
"""Added to the scores of banned tokens: their probability is exactly 0 and, unlike with -inf, p log p is too."""


@dataclass
class Loaded:
    """A policy ready to roll out and to learn. `model` is the real module, never a wrapper around it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    image_processor: Qwen2VLImageProcessorPil
    protocol: Protocol
    device: torch.device
    end_id: int = field(init=False)
    """The end-of-turn token."""
    silence_ids: tuple[int, ...] = field(init=False)
    """The tokens of a wait, without the end-of-turn token."""
    newline: tuple[int, ...] = field(init=False)
    """Stands between messages."""
    headers: dict[str, list[int]] = field(init=False)
    """What opens a message of each role."""

    def __post_init__(self) -> None:
        config = self.model.config
        vocabulary = self.tokenizer.get_vocab()
        self.end_id = vocabulary["<|im_end|>"]
        self.newline, self.silence_ids = tuple(self.encode("\n")), tuple(self.encode(self.protocol.silence))
        roles = ("system", "user", "assistant")
        self.headers = {role: [vocabulary["<|im_start|>"], *self.encode(f"{role}\n")] for role in roles}
        self.image_id: int = config.image_token_id
        self.vision_start_id: int = config.vision_start_token_id
        self.vision_end_id: int = config.vision_end_token_id
        self.merge: int = config.vision_config.spatial_merge_size

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; what looks like a special token in it stays text."""
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    @cached_property
    def bans(self) -> Tensor:
        """[V] float32: `BANNED` for every id that a policy may not say, 0 elsewhere.

        These are all special tokens but the end-of-turn token (a sampled visual placeholder would break the next
        forward) and the ids of the output layer that the tokenizer does not know.
        """
        bans = torch.zeros(self.model.config.text_config.vocab_size)
        bans[len(self.tokenizer) :] = BANNED
        config = self.model.config
        vision = {
            config.image_token_id,
            config.video_token_id,
            config.vision_start_token_id,
            config.vision_end_token_id,
        }
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        bans[sorted((special | vision) - {self.end_id})] = BANNED
        return bans.to(self.device)

    def action(self, tokens: list[int], logprobs: list[float]) -> Action:
        """An action from its sampled tokens and log-probs [K]; without an end-of-turn token it was capped."""
        ended = tokens[-1] == self.end_id
        return Action(
            tokens=tuple(tokens),
            logprobs=tuple(logprobs),
            text=str(self.tokenizer.decode(tokens[:-1] if ended else tokens)),
            kind=self.protocol.classify(tokens, self.silence_ids, self.end_id),
            capped=not ended,
        )

    def encode_action(self, text: str | None) -> Action:
        """The action that says `text`; None is silence. Log-probs are zeros: it was not sampled."""
        tokens = [*(self.silence_ids if text is None else self.encode(text)), self.end_id]
        return self.action(tokens, [0.0] * len(tokens))

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and image processor in the hub layout, by rename."""
        with replacing(folder) as scratch:
            self.model.save_pretrained(scratch)
            self.tokenizer.save_pretrained(scratch)
            self.image_processor.save_pretrained(scratch)


def load_policy(config: Policy, protocol: Protocol, folder: Path | None, device: str = "auto") -> Loaded:
    """Load a Qwen2.5-VL or Qwen3-VL from `folder`, or from `config.model` (directory or hub id) where that is None.

    `device`: auto (CUDA where there is one), cpu or cuda. Frames are resized to at most `config.frame_pixels` pixels.
    Raises UserError naming the source where there is no model of these families.
    """
    source = str(folder or config.model)
    family = _family(source)
    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    model: Any = FAMILIES[family].from_pretrained(source, dtype=getattr(torch, config.dtype))
    processor = Qwen2VLImageProcessorPil.from_pretrained(source)
    smallest = min(processor.size["shortest_edge"], config.frame_pixels)
    processor.size = {"shortest_edge": smallest, "longest_edge": config.frame_pixels}
    return Loaded(model.to(place).eval(), AutoTokenizer.from_pretrained(source), processor, protocol, place)


def _family(source: str) -> str:
    try:
        family = AutoConfig.from_pretrained(source).model_type
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{source}: no model can be loaded from here ({reason}); policy.model must name a Qwen2.5-VL or Qwen3-VL "
            "directory or hub id, and `dvc repro sft` builds the embedded one"
        ) from None
    if family not in FAMILIES:
        raise UserError(f"{source}: config.json: model_type: {family!r} is not one of {', '.join(FAMILIES)}")
    return family


def tower(policy: Loaded) -> torch.nn.Module:
    """The vision tower with its merger."""
    return policy.model.model.visual


def trainable_parameters(policy: Loaded, freeze_vision: bool) -> list[torch.nn.Parameter]:
    """Parameters to optimise, in module order; sets `requires_grad` of the vision tower to match."""
    policy.model.requires_grad_(True)
    tower(policy).requires_grad_(not freeze_vision)
    return [p for p in policy.model.parameters() if p.requires_grad]
