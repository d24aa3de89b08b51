"""A policy in memory: the model, its tokenizer and image processor, and how it writes silence and replies.

The tokenizer and the PIL image processor are loaded each by itself: the whole AutoProcessor and the video processors
need torchvision, and frames enter as images.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from turnwise.errors import UserError, out_of_memory
from turnwise.files import replacing
from turnwise.policy.adapters import base_of, load_adapter, new_adapter, save_adapter
from turnwise.protocols import Protocol, Writing
from turnwise.records import Action

if TYPE_CHECKING:
    from peft import PeftModel

logging.disable_progress_bar()

FAMILIES: dict[str, type[PreTrainedModel]] = {
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
}
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
REMEDY = "name a Qwen2.5-VL or Qwen3-VL (`policy.model`, `--model`); `dvc repro sft` builds the embedded one"
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
    adapter: "PeftModel | None" = None
    """What is trained in place of the model's own weights, where there is one; its layers are in `model`."""
    attention: str = field(init=False)
    """Kernel of rows that need no mask of their own; the others take `turnwise.policy.attention`."""
    end_id: int = field(init=False)
    """The end-of-turn token."""
    writing: Writing = field(init=False)
    """The protocol in this tokenizer's token ids."""
    newline: tuple[int, ...] = field(init=False)
    """Stands between messages."""
    closing: tuple[int, ...] = field(init=False)
    """Stands after an action's end-of-turn token."""
    headers: dict[str, list[int]] = field(init=False)
    """What opens a message of each role."""

    def __post_init__(self) -> None:
        config = self.model.config
        self.attention = config.text_config._attn_implementation
        vocabulary = self.tokenizer.get_vocab()
        self.end_id = vocabulary["<|im_end|>"]
        self.newline, self.writing = tuple(self.encode("\n")), Writing(self.protocol, self.encode, self.end_id)
        self.closing = self.newline if self.protocol.messages else ()
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
        bans = torch.full((self.model.config.text_config.vocab_size,), BANNED)
        bans[list(self.tokenizer.get_vocab().values())] = 0.0
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
        reading = self.writing.read(tokens)
        return Action(
            tokens=tuple(tokens),
            logprobs=tuple(logprobs),
            text=str(self.tokenizer.decode(tokens[reading.said])),
            kind=reading.kind,
            capped=tokens[-1] != self.end_id,
            thought_tokens=reading.thought.stop - reading.thought.start,
        )

    def encode_action(self, text: str | None, thought: str = "") -> Action:
        """The action that says `text`; None is silence. Log-probs are zeros: it was not sampled."""
        tokens = self.writing.write(text, thought)
        return self.action(tokens, [0.0] * len(tokens))

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within, the model is its base, without the adapter. Raises ValueError where it has none."""
        if self.adapter is None:
            raise ValueError("a policy without an adapter holds no reference of its own")
        with self.adapter.disable_adapter():
            yield

    def save(self, folder: Path) -> None:
        """Write model (or its adapter alone), tokenizer and image processor in the hub layout, by rename."""
        with replacing(folder) as scratch:
            if self.adapter is None:
                self.model.save_pretrained(scratch)
            else:
                save_adapter(self.adapter, scratch)
            self.tokenizer.save_pretrained(scratch)
            self.image_processor.save_pretrained(scratch)


def load_policy(config: Policy, protocol: Protocol, folder: Path | None, device: str = "auto") -> Loaded:
    """Load a Qwen2.5-VL or Qwen3-VL from `folder`, or from `config.model` (directory or hub id) where that is None.

    A folder that holds an adapter names its base model itself; else `config.lora` puts a fresh adapter in.
    `device`: auto (CUDA where there is one), cpu or cuda. Frames are resized to at most `config.frame_pixels` pixels.
    Weights are read from safetensors alone. Raises UserError naming the source where there is no model of these families,
    a damaged one, or no such attention or device.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("params.yaml: runtime.device: torch finds no CUDA device on this machine; use cpu or auto")
    source = str(folder or config.model)
    with _readable(source):
        base = base_of(source)
        model = _model(base or source, config)
        adapter = load_adapter(model, source) if base else new_adapter(model, config.lora) if config.lora else None
    if config.gradient_checkpointing:
        model.activation_checkpointing_enable()
        # Frames are written into the embeddings, which a leaf with gradient would refuse; this checkpointing needs none.
        model.disable_input_require_grads()
    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    model.to(place).eval()
    with _readable(source):
        tokenizer, processor = AutoTokenizer.from_pretrained(source), Qwen2VLImageProcessorPil.from_pretrained(source)
        smallest = min(processor.size["shortest_edge"], config.frame_pixels)
        processor.size = {"shortest_edge": smallest, "longest_edge": config.frame_pixels}
        return Loaded(model, tokenizer, processor, protocol, place, adapter)


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turn what the libraries raise over a missing or damaged file into a UserError; that may be any exception."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        raise UserError(
            f"{source}: a file of this model is missing or damaged ({reason}); fetch it again, or have `dvc repro` write it"
        ) from None


def _model(source: str, config: Policy) -> Any:
    family: Any = FAMILIES[_family(source)]
    settings = {"dtype": getattr(torch, config.dtype), "attn_implementation": config.attention}
    try:
        model, found = family.from_pretrained(source, output_loading_info=True, use_safetensors=True, **settings)
    except ImportError as error:
        reason = f"{config.attention} cannot be used ({str(error).splitlines()[0]})"
        raise UserError(f"params.yaml: policy.attention: {reason}; use sdpa") from None
    if absent := sorted(found["missing_keys"]):
        raise UserError(f"{source}: {len(absent)} of its tensors are missing, {absent[0]!r} first; fetch it again")
    return model


def _family(source: str) -> str:
    if not Path(source).is_dir() and not HUB_ID.fullmatch(source):
        raise UserError(f"{source}: no such directory, and no hub id (owner/name) either; {REMEDY}")
    try:
        family = AutoConfig.from_pretrained(source).model_type
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{source}: no model can be loaded from here ({reason}); {REMEDY}") from None
    if family not in FAMILIES:
        raise UserError(f"{source}: config.json: model_type: {family!r} is not one of {', '.join(FAMILIES)}")
    return family


def tower(policy: Loaded) -> torch.nn.Module:
    """The vision tower with its merger."""
    return policy.model.model.visual


def trainable_parameters(policy: Loaded, freeze_vision: bool) -> list[torch.nn.Parameter]:
    """Parameters to optimise, in module order: the adapter's, or all but a frozen tower's; sets `requires_grad` to match."""
    if policy.adapter is None:
        policy.model.requires_grad_(True)
        tower(policy).requires_grad_(not freeze_vision)
    return [p for p in policy.model.parameters() if p.requires_grad]
