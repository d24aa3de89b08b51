"""Roll-out by vLLM, for GPUs: what `HfSampler` does, drawn with vLLM's own random numbers.

vLLM gets token ids and the features of the frames, so the tower runs where the policy does, once a frame. It takes the
weights from memory before each roll-out. Tried with vLLM 0.32.0 on CPU alone, never on a GPU.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.policy.conversation import Conversation
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded
from turnwise.policy.sampler import OnTurn, script_within
from turnwise.records import Action, Trajectory

SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
"""In process: the weights need not be written to be read."""
CPU_SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"}
"""A gibibyte of cache; and no compilation, which stalls for seconds at each new shape."""
GPU_SHARE = 0.4
"""Of a GPU's memory, for vLLM's weights and cache; the rest is the trainer's."""


@dataclass
class _Row:
    """One trajectory on its way."""

    episode: Episode
    index: int
    conversation: Conversation
    actions: list[Action] = field(default_factory=list)


class VllmSampler:
    """A `Sampler` over the one engine of its policy."""

    def __init__(self, policy: Loaded, frames: FrameStore, *, max_action_tokens: int, max_context: int):
        self.policy, self.frames = policy, frames
        self.max_action_tokens, self.max_context = max_action_tokens, max_context

    @torch.no_grad()
    def rollout(
        self,
        episodes: Sequence[Episode],
        group_size: int,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        on_turn: OnTurn | None = None,
    ) -> list[Trajectory]:
        """As `HfSampler.rollout`. Raises UserError without vLLM, and for an episode that may exceed `max_context`."""
        rows = self._rows(episodes, group_size)
        engine = _engine_of(self.policy, self.max_context)
        engine.sync(self.policy)
        drawn: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        drawn |= {"max_tokens": self.max_action_tokens, "stop_token_ids": [self.policy.end_id]}
        drawn |= {"logit_bias": _bias(self.policy, temperature)}
        for turn in range(max(episode.turns for episode in episodes)):
            live = [row for row in rows if turn < row.episode.turns]
            self._take_turn(engine, live, turn, drawn, seed)
            if on_turn:
                on_turn(turn, [row.actions[turn] if turn < row.episode.turns else None for row in rows])
        return [Trajectory(row.episode.id, row.index, tuple(row.actions)) for row in rows]

    def _rows(self, episodes: Sequence[Episode], group_size: int) -> list[_Row]:
        self.frames.prefetch(episodes)
        rows = []
        for episode in episodes:
            script = script_within(self.policy, self.frames, episode, self.max_action_tokens, self.max_context)
            rows += [_Row(episode, index, Conversation(self.policy, script)) for index in range(group_size)]
        return rows

    def _take_turn(self, engine: "_Engine", rows: list[_Row], turn: int, drawn: dict[str, Any], seed: int) -> None:
        for row in rows:
            row.conversation.show(turn)
        seeds = [_seed(seed, row.episode.id, row.index, turn) for row in rows]
        spoken = engine.speak([self._prompt(row.conversation) for row in rows], [drawn | {"seed": s} for s in seeds])
        for row, (read, tokens, logprobs) in zip(rows, spoken, strict=True):
            if read != row.conversation.ids:
                raise RuntimeError("vLLM read other tokens than the trainer will: images were expanded differently")
            row.conversation.act(turn, tokens)
            row.actions.append(self.policy.action(tokens, logprobs))

    def _prompt(self, conversation: Conversation) -> dict[str, Any]:
        """The conversation so far with one placeholder a frame, which vLLM expands itself, and the frames' features."""
        policy, piece = self.policy, conversation.since(0)
        features = self.frames.features([frame for frame, _ in piece.frames])
        ids = [
            token
            for before, token in pairwise([-1, *piece.ids])
            if token != policy.image_id or before == policy.vision_start_id
        ]
        seen = {
            "image_embeds": torch.cat([features.embeds, *features.deepstack], dim=1),
            "image_grid_thw": torch.tensor([(1, h * policy.merge, w * policy.merge) for _, (h, w) in piece.frames]),
        }
        names = [f"{self.frames.root}/{frame.clip}@{frame.time}" for frame, _ in piece.frames]
        return {"prompt_token_ids": ids, "multi_modal_data": {"image": seen}, "multi_modal_uuids": {"image": names}}


def _bias(policy: Loaded, temperature: float) -> dict[int, float]:
    """The policy's bans as vLLM takes them: added before the temperature, -100 at the least."""
    banned = torch.nonzero(policy.bans)[:, 0].tolist()
    return {token: max(-100.0, float(policy.bans[token]) * (temperature or 1.0)) for token in banned}


def _seed(*key: object) -> int:
    """One action's seed, from a stable hash of its key."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6], "big")


_ENGINES: "WeakKeyDictionary[torch.nn.Module, _Engine]" = WeakKeyDictionary()


def _engine_of(policy: Loaded, max_context: int) -> "_Engine":
    """The policy's engine, started at first use."""
    if policy.model not in _ENGINES:
        _ENGINES[policy.model] = _Engine(policy, max_context)
    return _ENGINES[policy.model]


class _Engine:
    """vLLM with the policy's configuration and, after `sync`, its weights."""

    def __init__(self, policy: Loaded, max_context: int):
        cpu = policy.device.type == "cpu"
        for name, value in (SETTINGS | (CPU_SETTINGS if cpu else {})).items():
            os.environ.setdefault(name, value)
        try:
            from vllm import LLM
        except ImportError:
            raise UserError(
                "params.yaml: rollout.engine: vllm is not installed here; `pip install 'turnwise[vllm]'`, or choose hf"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            for part in (policy.model.config, policy.tokenizer, policy.image_processor):
                part.save_pretrained(folder)
            self._llm: Any = LLM(
                model=folder,
                load_format="dummy",
                dtype=str(policy.model.dtype).removeprefix("torch."),
                enforce_eager=cpu,
                block_size=32 if cpu else None,
                gpu_memory_utilization=GPU_SHARE,
                max_model_len=max_context,
                max_num_batched_tokens=max_context,
                # Seeded requests and chunked prefill do not go together on CPU; with the past cached, turns are short.
                enable_chunked_prefill=False,
                enable_prefix_caching=True,
                enable_mm_embeds=True,
                # A limit of 0 would drop the tower, and with it Qwen3-VL's deepstack features.
                limit_mm_per_prompt={"image": max_context, "video": 0},
                skip_mm_profiling=True,
                logprobs_mode="processed_logprobs",
                generation_config="vllm",
            )
        self._llm.collective_rpc(_keep_logprobs_whole)

    def sync(self, policy: Loaded) -> None:
        """Take over the weights, and forget what was computed with the old ones."""
        self._llm.collective_rpc(lambda worker: _reload(worker, _weights(policy.model)))
        self._llm.reset_mm_cache()
        self._llm.llm_engine.reset_encoder_cache()
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept keys and values of the old weights")

    def speak(
        self, prompts: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]
    ) -> list[tuple[list[int], list[int], list[float]]]:
        """For each prompt the tokens that were read, those sampled, and their log-probs."""
        from vllm import SamplingParams

        ways = [SamplingParams(logprobs=0, detokenize=False, **way) for way in drawn]
        spoken = []
        for output in self._llm.generate(list(prompts), ways, use_tqdm=False):
            said = output.outputs[0]
            tokens = list(said.token_ids)
            logprobs = [float(at[token].logprob) for at, token in zip(said.logprobs, tokens, strict=True)]
            spoken.append((list(output.prompt_token_ids), tokens, logprobs))
        return spoken


def _weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The model's weights by their names in a checkpoint, an adapter added in."""
    from peft.tuners.lora import Linear

    added = {
        f"{name}.base_layer.weight": layer.get_delta_weight("default")
        for name, layer in model.named_modules()
        if isinstance(layer, Linear)
    }
    for name, tensor in model.state_dict().items():
        if ".lora_" not in name:
            yield name.replace(".base_layer", ""), tensor + added[name].to(tensor.dtype) if name in added else tensor


def _reload(worker: Any, weights: Iterator[tuple[str, Tensor]]) -> None:
    """Load weights; then pack the output layer anew, whose CPU form keeps an old copy when it is tied to the embedding."""
    worker.reload_weights(weights_iterator=weights)
    for module in worker.model_runner.get_model().modules():
        if type(module).__name__ == "ParallelLMHead":
            module.quant_method.process_weights_after_loading(module)


def _keep_logprobs_whole(worker: Any) -> None:
    """Log-probs as after temperature and bans: vLLM would give those after top-k and top-p."""
    drawing = worker.model_runner.sampler.topk_topp_sampler
    draw = drawing.forward

    def forward(logits: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        logprobs = logits.log_softmax(-1, dtype=torch.float32)
        return draw(logits, *rest)[0], logprobs

    drawing.forward = forward
