"""One forward of the decoder over token rows, with visual features put in and positions given."""

from typing import Any

import torch
from torch import Tensor

from turnwise.policy.attention import GROUPED
from turnwise.policy.conversation import Rows
from turnwise.policy.frames import Features
from turnwise.policy.loading import Loaded


def hidden_states(
    policy: Loaded, rows: Rows, features: Features | None, *, mask: Tensor | None = None, cache: Any = None
) -> Tensor:
    """Hidden states [B, L, D] of the last layer. `features` are those of `rows.frames`; None where there are none.

    Without `mask` [B, 1, L, S] (additive) attention is causal, which is all that rows filled at the right need.
    Raises ValueError where the visual tokens and the placeholders do not match one to one, or frames were not used.
    """
    decoder = policy.model.model.language_model
    _choose_attention(policy, decoder, masked=mask is not None)
    embeds = decoder.embed_tokens(rows.ids)
    extra: dict[str, Any] = {}
    if features is None and rows.frames:
        raise ValueError(f"{len(rows.frames)} frames were given without their features; they would go unseen")
    if features is not None:
        visual = rows.slots >= 0
        _check_match(policy, rows, visual, features)
        taken = rows.slots[visual]
        embeds[visual] = features.embeds[taken].to(embeds.dtype)
        if features.deepstack:
            extra = {"visual_pos_masks": visual, "deepstack_visual_embeds": [d[taken] for d in features.deepstack]}
    return decoder(
        inputs_embeds=embeds,
        position_ids=rows.positions,
        attention_mask=mask,
        cache=cache,
        use_cache=cache is not None,
        **extra,
    ).last_hidden_state


def _choose_attention(policy: Loaded, decoder: Any, *, masked: bool) -> None:
    """Rows that bring a mask have a past; flash attention takes none."""
    wanted = GROUPED if masked else policy.attention
    if decoder.config._attn_implementation != wanted:
        decoder.set_attn_implementation(wanted)


def _check_match(policy: Loaded, rows: Rows, visual: Tensor, features: Features) -> None:
    used = torch.zeros(len(features.embeds), dtype=torch.bool, device=visual.device)
    used[rows.slots[visual]] = True
    if not (bool(used.all()) and torch.equal(visual, rows.ids == policy.image_id)):
        raise ValueError(
            f"the frames' {len(features.embeds)} visual tokens and the rows' {int((rows.ids == policy.image_id).sum())} "
            "placeholders do not match; a frame would go unseen"
        )


def log_probabilities(policy: Loaded, hidden: Tensor, temperature: float) -> Tensor:
    """Log-probs [N, V] float32 of the next token from hidden states [N, D]: after temperature and bans.

    Temperature 0 stands for greedy sampling, whose log-probs are those at temperature 1.
    """
    scores = policy.model.lm_head(hidden).float()
    return torch.log_softmax(scores / (temperature or 1.0) + policy.bans, dim=-1)
