"""The sections of `params.yaml`, judges and rewards apart: what each field means, and its unit."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from turnwise.config.fields import Count, Natural, NonNegative, Positive, Section, Share

CreditRule = Literal["grpo", "dr_grpo", "rloo", "turnwise", "difference", "return_to_go", "mt_grpo", "gigpo", "gdpo"]
EventRule = Literal["released", "start", "end", "probe"]
Matching = Literal["maximum", "first"]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "turn-mean", "turn-sum-norm"]
_RULES_THAT_TAKE = {"alpha": ("turnwise",), "gamma": ("return_to_go", "gigpo"), "turn_weight": ("mt_grpo", "gigpo")}


class Arm(Section):
    """What one arm of the ablation changes; all else belongs to the experiment."""

    credit: CreditRule
    """Credit rule (docs/method.md): one advantage a trajectory, or one a decision."""
    alpha: Share = 0.0
    """Share of what was earned before a turn that is taken from its advantage, after warm-up; 0 is GRPO. `turnwise`."""
    gamma: Share = 1.0
    """Discount of later increments, a turn. `return_to_go` and `gigpo`."""
    turn_weight: NonNegative = 1.0
    """Weight of the turn's own advantage beside the trajectory's: lambda of `mt_grpo`, omega of `gigpo`."""
    aggregation: Aggregation = "seq-mean-token-mean"
    """How token losses are averaged."""
    ratio_level: Literal["token", "turn", "sequence"] = "token"
    """Span over which the log probability ratio is averaged."""
    clip_low: Share = 0.2
    """Ratio clip below 1 (no unit)."""
    clip_high: NonNegative = 0.2
    """Ratio clip above 1 (no unit)."""
    dual_clip: Annotated[float, Field(gt=1, allow_inf_nan=False, strict=True)] = 3.0
    """Bound on the ratio where the advantage is negative (no unit)."""

    @model_validator(mode="after")
    def _settings_of_the_rule(self) -> "Arm":
        for name, rules in _RULES_THAT_TAKE.items():
            if self.credit not in rules and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"credit: {self.credit} takes no {name}; it belongs to {' and '.join(rules)}")
        return self


class Data(Section):
    """The embedded world: how many clips of each split, and what they look like."""

    seed: Natural
    """Seed of the world."""
    sft_clips: Count
    """Clips for the supervised warm-up."""
    rl_clips: Count
    """Clips for reinforcement learning."""
    dev_clips: Count
    """Clips of the development split (validation curve)."""
    benchmark_clips: Count
    """Clips of each of the three small benchmarks."""
    episodes_per_clip: Count
    """Streamed episodes drawn from each SFT or RL clip."""
    captions: Count
    """Single-frame caption, count and four-way items for the first SFT phase."""
    fps: Count
    """Frames a second of the rendered clips."""
    size: Annotated[int, Field(ge=56, multiple_of=2)]
    """Height and width of the rendered clips, pixels."""
    min_turns: Annotated[int, Field(ge=2)]
    """Fewest turns of an episode."""
    max_turns: Annotated[int, Field(ge=2)]
    """Most turns of an episode."""
    late: Share
    """Share of demonstrated replies that come late."""
    repeated: Share
    """Share of demonstrated replies that are said again in a following turn."""
    wrong: Share
    """Share of demonstrated replies with a wrong attribute."""
    stray: Share
    """Share of silent demonstrated turns turned into a reply outside every window."""
    missed: Share
    """Share of windows that a demonstration leaves unanswered."""
    thoughts: bool
    """Write a thought before each demonstrated action, for protocols that have thoughts."""


class Stream(Section):
    """How a clip becomes turns."""

    frame_interval: Positive
    """Seconds between frames shown."""
    frames_per_turn: Count
    """Frames shown at each decision."""


Projection = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Lora(Section):
    """A low-rank adapter beside the frozen weights (arXiv 2106.09685), kept in float32; nothing else is trained."""

    rank: Count
    """Rank of the adapter's matrices."""
    alpha: Count
    """What the adapter adds is multiplied by alpha / rank."""
    targets: Annotated[tuple[Projection, ...], Field(min_length=1)]
    """Linear layers of each block of the language model that get one."""


class Policy(Section):
    """The model that watches and speaks."""

    model: str
    """`embedded` (built here, about a million parameters), a directory, or a hub id of a Qwen2.5-VL or Qwen3-VL."""
    family: Literal["qwen2_5_vl", "qwen3_vl"]
    """Architecture of the embedded model; a loaded one says it itself."""
    hidden: Count
    """Width of the embedded language model."""
    layers: Count
    """Depth of the embedded language model."""
    heads: Count
    """Attention heads of the embedded language model."""
    vision_hidden: Count
    """Width of the embedded vision tower."""
    vision_layers: Count
    """Depth of the embedded vision tower."""
    frame_pixels: Count
    """Pixel budget of one frame: 28 x 28 (32 x 32 for Qwen3-VL) pixels are one visual token."""
    dtype: Literal["float32", "bfloat16"]
    """Type of the weights. In bfloat16 an optimizer step under 1/256 of a weight is lost: train an adapter there."""
    freeze_vision: bool
    """Keep the vision tower as SFT left it during RL."""
    attention: Literal["sdpa", "flash_attention_2"]
    """Kernel of learning. Flash needs its package, CUDA and bfloat16; roll-out, which masks, takes sdpa all the same."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass: less memory for a second forward."""
    lora: Lora | None
    """Train a fresh adapter instead of the weights; null trains the weights. A folder's own adapter goes on as it is."""

    @model_validator(mode="after")
    def _heads_fit(self) -> "Policy":
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden: {self.hidden} must be a multiple of twice the {self.heads} heads")
        return self

    @model_validator(mode="after")
    def _settings_fit(self) -> "Policy":
        if self.lora and self.model == "embedded":
            raise ValueError("lora: the embedded model starts from random weights; name a directory or hub id as model")
        if self.lora and not self.freeze_vision:
            raise ValueError("freeze_vision: must be true with lora, which trains the adapter alone")
        if self.attention != "sdpa" and self.dtype != "bfloat16":
            raise ValueError(f"attention: {self.attention} needs dtype: bfloat16")
        return self


class Sft(Section):
    """Supervised warm-up: single-frame items first, then streamed demonstrations."""

    caption_steps: Natural
    """Optimizer steps on single-frame items."""
    caption_batch: Count
    """Items a step."""
    stream_steps: Natural
    """Optimizer steps on streamed demonstrations."""
    stream_batch: Count
    """Demonstrations a step."""
    micro_batch: Count
    """Items or demonstrations of one forward and backward pass; memory and time, no more."""
    lr: Positive
    """Peak learning rate; linear warm-up over the first tenth, then cosine to a tenth."""
    weight_decay: NonNegative
    """AdamW weight decay."""
    loss: Literal["plain", "streaming_eos", "class_balanced"]
    """Cross-entropy of action tokens: all alike, waits weighted, or waits and decisions to speak weighted by how rare."""
    silence_weight: NonNegative
    """Weight of the tokens of a wait beside 1. `streaming_eos` (VideoLLM-online: 1.0)."""
    class_beta: Annotated[float, Field(ge=0, lt=1, strict=True)]
    """Beta of the effective number of turns, (1 - beta^n) / (1 - beta). `class_balanced` (arXiv 2605.16381: 0.9999)."""
    text_weight: NonNegative
    """Weight of what is said and thought beside a mean of 1 for the two decisions. `class_balanced` (there: 2.0)."""
    checkpoint_every: Count
    """Optimizer steps between checkpoints in state/."""


class Rollout(Section):
    """Sampling."""

    engine: Literal["hf", "vllm"]
    """Who samples: the loaded model in process, or vLLM (an extra), which reads its weights."""
    group_size: Annotated[int, Field(ge=2)]
    """G, trajectories of an episode."""
    groups: Count
    """Groups sampled from the SFT policy, in epoch order; at least rl.groups_per_update."""
    temperature: Annotated[float, Field(ge=0.01, le=100, strict=True)]
    """Sampling temperature (no unit)."""
    top_k: Natural
    """Keep the k likeliest tokens; 0 keeps all."""
    top_p: Annotated[float, Field(gt=0, le=1)]
    """Keep the likeliest tokens up to this mass."""
    max_action_tokens: Annotated[int, Field(ge=2)]
    """Token cap of an action, the end-of-turn token included."""
    max_context: Count
    """Tokens of the longest conversation that is rolled out; a longer one is refused before sampling."""


class Credit(Section):
    """Group statistics of A_global and A_turn; the same for all arms."""

    eps: NonNegative
    """Added to the group's standard deviation (reward units)."""
    ddof: Literal[0, 1]
    """Delta degrees of freedom of the standard deviation."""
    a_max: Positive
    """Advantages are clipped at plus and minus this."""
    zero_spread: Literal["drop", "floor", "keep"]
    """Groups whose rewards are all equal: no gradient (drop), a floor of 1 under the spread, or eps alone."""


class Horizon(Section):
    """How many of an episode's turns a group is trained on; one number a group, the same for all arms."""

    kind: Literal["fixed", "uniform", "curriculum"]
    """`fixed`: all of them. `uniform`: a number from `shortest` to all. `curriculum`: from `shortest` up to all."""
    shortest: Count
    """Fewest turns; an episode that has fewer keeps its own."""
    ramp: Share
    """Share of the updates over which a curriculum rises."""


class Rl(Section):
    """One epoch of reinforcement learning."""

    updates: Count
    """U, batches of fresh roll-outs."""
    groups_per_update: Count
    """Groups an update learns from."""
    minibatches: Count
    """Optimizer steps an update."""
    micro_batch: Count
    """Trajectories of one forward and backward pass."""
    lr: Positive
    """Learning rate, constant after a linear warm-up."""
    warmup_updates: Natural
    """Updates of the learning-rate warm-up."""
    weight_decay: NonNegative
    """AdamW weight decay."""
    max_grad_norm: Positive
    """Gradient norm clip."""
    alpha_warmup: Share
    """Share of the updates over which alpha rises linearly from 0."""
    validate_every: Count
    """Updates between points of the validation curve."""
    keep_checkpoints: Count
    """Checkpoints kept in state/."""
    max_skipped: Count
    """Optimizer steps in a row with a loss or gradient that is not finite after which the run stops."""
    horizon: Horizon


class Evaluate(Section):
    """The three benchmarks."""

    batch: Count
    """Streams side by side."""
    omega: Share
    """PAUC's omega of the headline."""
    tolerance: NonNegative
    """Seconds within which an event is matched, inclusive."""
    events: EventRule
    """When OVO-Timing's events are due: the released code's rule (start + 2 s), or another."""
    matching: Matching
    """How events and replies pair up: as many as can, or first come, first served, as the released code does."""
    metronome: Positive
    """Period of the blind metronome baseline, seconds."""


class Runtime(Section):
    """How stages run; no result depends on it but through floating-point order."""

    threads: Count
    """Torch threads of a stage."""
    device: Literal["auto", "cpu", "cuda"]
    """Where the model lives."""
