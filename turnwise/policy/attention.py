"""Attention of new tokens to a remembered past. Qwen's heads share keys and values in groups, and the past is read as it
lies; transformers' own sdpa repeats it for every head of a group wherever more than one token brings a mask."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "turnwise_grouped"
"""The name that decoders know it by."""


def grouped_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """softmax(q kᵀ · scaling + mask) v of query [B, H, L, D], key and value [B, K, S, D] and mask [B, 1, L, S].

    Returns [B, L, H, D], and None for the weights. H is a multiple of K: head h reads the keys of h // (H / K).
    Without a mask, as in the model's own `generate`, this is transformers' sdpa.
    """
    if attention_mask is None:
        return sdpa_attention_forward(module, query, key, value, None, **options)
    attend = _grouped if query.device.type == "cpu" else stacked
    return attend(query, key, value, attention_mask, options["scaling"]).transpose(1, 2).contiguous(), None


def _grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float) -> Tensor:
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)


def stacked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """The same [B, H, L, D], with a group's heads as rows of one: CUDA has no fused kernel that takes groups and a mask."""
    rows, heads, length, size = query.shape
    group = heads // key.shape[1]
    queries, masks = query.reshape(rows, key.shape[1], group * length, size), mask.repeat(1, 1, group, 1)
    found = scaled_dot_product_attention(queries, key, value, attn_mask=masks, scale=scaling)
    return found.view(rows, heads, length, size)


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
