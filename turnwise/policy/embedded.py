"""The embedded policy: a Qwen2.5-VL or Qwen3-VL of about a million random parameters, written in the hub layout.

Nothing is downloaded: the tokenizer is trained on the world's own texts with Qwen's pre-tokenizer, special tokens and
chat template, so that a word of the world is one token and everything that reads a real checkpoint reads this one.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    PreTrainedModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from turnwise.config import Policy
from turnwise.files import replacing
from turnwise.protocols import NO_REPLY, Protocol

VOCABULARY = 1024
"""Most token ids of the embedded tokenizer, bytes and special tokens included."""

SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
"""Qwen2.5-VL's special tokens in the order of their ids there."""

CHAT_TEMPLATE = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor -%}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What Qwen's template does with text and images."""


def build_embedded(
    config: Policy, texts: Iterable[str], folder: Path, seed: int, protocol: Protocol = NO_REPLY
) -> None:
    """Write a fresh embedded policy (weights, configuration, tokenizer, image processor) to `folder`, by rename.

    `texts` are what the tokenizer learns its words from, beside the protocol's. The same arguments write the same bytes.
    """
    tokenizer = train_tokenizer(texts, protocol)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _model(config, tokenizer)
    vision = model.config.vision_config
    smallest = (vision.patch_size * vision.spatial_merge_size) ** 2
    processor = Qwen2VLImageProcessorPil(
        patch_size=vision.patch_size, size={"shortest_edge": smallest, "longest_edge": config.frame_pixels}
    )
    with replacing(folder) as scratch:
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        processor.save_pretrained(scratch)


def train_tokenizer(texts: Iterable[str], protocol: Protocol) -> Qwen2Tokenizer:
    """A byte-level BPE of at most `VOCABULARY` ids over the distinct texts and, weighted to be whole, the protocol's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    corpus = sorted(set(texts))
    common = [*protocol.texts, "system", "user", "assistant"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus + common * (1 + len(corpus)), trainer)
    return _qwen_tokenizer(json.loads(tokenizer.to_str())["model"])


def _qwen_tokenizer(bpe: dict[str, Any]) -> Qwen2Tokenizer:
    """Special tokens go into the vocabulary itself: else the constructor gives eos and pad the first free ids."""
    vocab = bpe["vocab"] | {token: len(bpe["vocab"]) + i for i, token in enumerate(SPECIAL)}
    merges: list[Any] = [tuple(pair) for pair in bpe["merges"]]
    tokenizer = Qwen2Tokenizer(
        vocab=vocab,
        merges=merges,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    )
    tokenizer.add_tokens([AddedToken(token, special=True) for token in SPECIAL], special_tokens=True)
    return tokenizer


def _model(config: Policy, tokenizer: Qwen2Tokenizer) -> PreTrainedModel:
    named = ("image_pad", "video_pad", "vision_start", "vision_end")
    keys = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    ids = {key: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for key, name in zip(keys, named, strict=True)}
    shared: dict[str, Any] = {"tie_word_embeddings": True, **ids}
    if config.family == "qwen3_vl":
        text = _text(config, tokenizer, theta=5e6, mrope_interleaved=True)
        text["head_dim"] = config.hidden // config.heads
        vision = _vision(config, patch_size=16, num_position_embeddings=256, deepstack_visual_indexes=[0])
        return Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=text, vision_config=vision, **shared))
    text = _text(config, tokenizer, theta=1e6)
    last = config.vision_layers - 1
    vision = _vision(config, patch_size=14, window_size=112, fullatt_block_indexes=[last], tokens_per_second=2)
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision, **shared))


def _text(config: Policy, tokenizer: Qwen2Tokenizer, theta: float, **rope: bool) -> dict[str, Any]:
    half = config.hidden // config.heads // 2
    side = half * 3 // 8
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": config.hidden,
        "intermediate_size": 2 * config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": max(1, config.heads // 2),
        "max_position_embeddings": 32768,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": theta,
            "mrope_section": [half - 2 * side, side, side],
            **rope,
        },
    }


def _vision(config: Policy, **family: Any) -> dict[str, Any]:
    return {
        "depth": config.vision_layers,
        "hidden_size": config.vision_hidden,
        "intermediate_size": 2 * config.vision_hidden,
        "num_heads": 4,
        "out_hidden_size": config.hidden,
        **family,
    }
