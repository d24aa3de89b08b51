"""TRL's own trainer on rows of several turns, and the loss that `turnwise.objective` gives to the same rows.

TRL's sampler is replaced through its own hook: `rollout_func` hands over the rows below, with what no policy sampled
masked by `env_mask`. Rewards, advantages, old and reference log-probabilities and losses come from the trainer's methods.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from turnwise.objective import Loss, log_ratio, policy_loss, to_tokens, token_weights

VOCABULARY, GROUP, LONGEST = 24, 4, 40
ACTIONS = [(3, 1, 7, 2), (1, 4), (6,), (2, 2, 5), (1, 1, 1, 1, 9), (0, 0), (4, 2), (8,)]
"""Tokens of each turn's action: two groups of four trajectories; in one, nothing is to be learnt."""


@dataclass(frozen=True)
class Row:
    """One completion. `turns`: for each of its tokens the 0-based turn that sampled it, or -1 (an observation)."""

    prompt: list[int]
    completion: list[int]
    turns: list[int]

    @property
    def sampled(self) -> Tensor:
        """[C] true where the policy sampled the token."""
        return torch.tensor(self.turns) >= 0


def rows() -> list[Row]:
    """The trajectories of ACTIONS, with an observation of two or three tokens between two turns."""
    rng = np.random.default_rng(0)
    made = []
    for number, actions in enumerate(ACTIONS):
        turns: list[int] = []
        for turn, length in enumerate(actions):
            turns += [-1] * (2 + turn % 2 if turn else 0) + [turn] * length
        prompt, completion = (rng.integers(3, VOCABULARY, size).tolist() for size in (2 + number // GROUP, len(turns)))
        made.append(Row(prompt, completion, turns))
    return made


def one_row_a_turn(trajectories: Sequence[Row]) -> list[Row]:
    """Each action a completion of its own; its prompt is all that stood before it."""
    split = []
    for row in trajectories:
        turns = np.array(row.turns)
        for turn in sorted(set(row.turns) - {-1}):
            at = np.flatnonzero(turns == turn)
            split.append(Row(row.prompt + row.completion[: at[0]], [row.completion[i] for i in at], [0] * len(at)))
    return split


def save_model(folder: Path, family: str) -> None:
    """A model of 2 layers, with weights large enough that its choices are far from uniform.

    `opt` is float64 throughout where it is loaded so, and its positions do not depend on padding; the norms and the
    rotary positions of `qwen2` are float32 in every dtype.
    """
    torch.manual_seed(0)
    shared = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    opt = {"ffn_dim": 16, "word_embed_proj_dim": 16, "dropout": 0.0, "init_std": 0.3}
    qwen2 = {"intermediate_size": 16, "num_key_value_heads": 1, "initializer_range": 0.3}
    config = AutoConfig.for_model(family, **shared, **{"opt": opt, "qwen2": qwen2}[family], max_position_embeddings=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def trainer_for(
    folder: Path,
    batch: Sequence[Row],
    rewards: Sequence[Sequence[float]],
    dtype: torch.dtype = torch.float64,
    **settings,
) -> GRPOTrainer:
    """TRL's trainer whose roll-outs are `batch`, with one reward function for each list of `rewards` (one a row)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).train()
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w1", eos_token="w2")
    fixed = {"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    sizes = {"per_device_train_batch_size": len(batch), "num_generations": GROUP, "max_completion_length": LONGEST}
    settings = {"num_iterations": 2, "steps_per_generation": 1, "activation_checkpointing": False, **settings}
    trainer = GRPOTrainer(
        model,
        [lambda completions, term=term, **_: list(term) for term in rewards],  # noqa: ARG005
        GRPOConfig(str(folder / "out"), **(fixed | sizes | settings)),
        Dataset.from_list([{"prompt": "w3"}] * (len(batch) // GROUP)),
        processing_class=tokenizer,
        rollout_func=lambda *_: {
            "prompt_ids": [row.prompt for row in batch],
            "completion_ids": [row.completion for row in batch],
            "logprobs": None,
            "env_mask": [row.sampled.int().tolist() for row in batch],
        },
    )
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    return trainer


def trl_clips(clips: dict[str, float]) -> dict[str, float | None]:
    """turnwise's clips by TRL's names."""
    dual = None if math.isinf(clips["dual_clip"]) else clips["dual_clip"]
    return {"epsilon": clips["clip_low"], "epsilon_high": clips["clip_high"], "delta": dual}


def scored(trainer: GRPOTrainer, batch: Sequence[Row]) -> dict[str, Tensor]:
    """What TRL's loss takes, made by TRL from the roll-outs; numbers widened to float64."""
    inputs = trainer._generate_and_score_completions([{"prompt": "w3"} for _ in batch])
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def drift(model: torch.nn.Module, scale: float) -> None:
    """Move every parameter, as updates since the roll-out would have."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


class InModelPrecision(torch.nn.Module):
    """The model as TRL's loss calls it, with a head of the model's precision: TRL's own sums in float32, whatever comes."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, fused_lm_head: bool
    ) -> SimpleNamespace:
        assert fused_lm_head
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits[:, :-1]
        every = logits.log_softmax(-1)
        chosen = every.gather(-1, input_ids[:, 1:, None])[..., 0].masked_fill(labels[:, 1:] == -100, 0.0)
        return SimpleNamespace(log_probs=chosen, entropy=-(every.exp() * every).sum(-1).detach())


def trl_loss(trainer: GRPOTrainer, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Loss of `GRPOTrainer._compute_loss` and its gradient by all parameters, in float64."""
    return with_gradient(trainer.model, trainer._compute_loss(InModelPrecision(trainer.model), inputs))


def with_gradient(model: torch.nn.Module, loss: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and its gradient by all parameters, one vector."""
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss.detach(), torch.cat([gradient.flatten() for gradient in gradients])


def packed(values: Sequence[Tensor], padding: float) -> Tensor:
    """[B, K] from one vector a row."""
    return pad_sequence(list(values), batch_first=True, padding_value=padding)


def turn_ids(batch: Sequence[Row]) -> Tensor:
    """[B, K] turn of each action token, -1 where a row has fewer than K."""
    return packed([torch.tensor(row.turns)[row.sampled] for row in batch], -1)


def of_actions(values: Tensor, batch: Sequence[Row]) -> Tensor:
    """[B, K] the action tokens of TRL's values [B, C]; NaN beyond them."""
    return packed([v[: len(r.turns)][r.sampled] for v, r in zip(values, batch, strict=True)], torch.nan)


def action_logprobs(model: torch.nn.Module, batch: Sequence[Row]) -> Tensor:
    """[B, K] log-probability of each action token, row by row and without padding; NaN beyond them."""
    found = []
    for row in batch:
        ids = torch.tensor([row.prompt + row.completion])
        every = model(ids).logits[0, :-1].log_softmax(-1)
        found.append(every.gather(-1, ids[0, 1:, None])[-len(row.completion) :, 0][row.sampled])
    return packed(found, torch.nan)


def turnwise_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    turns: Tensor,
    *,
    aggregation: str,
    level: str,
    clips: dict[str, float],
) -> Loss:
    """The loss of turnwise.objective from log-probabilities [B, K], advantages [B, T] and turn ids [B, K]."""
    mask = turns >= 0
    weights = token_weights(mask, turns, aggregation)
    ratio = log_ratio(logp, old_logp, mask, turns, level)
    return policy_loss(ratio, to_tokens(advantages, mask, turns), weights, **clips)


def assert_equal(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> None:
    """Loss and gradient agree to 1e-12 (of their largest part, where that is above 1), and there is a gradient."""
    assert theirs[1].abs().max() > 1e-3
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.0, atol=1e-12 * max(1.0, other.abs().max().item()))
