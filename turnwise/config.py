"""The experiment's configuration: typed, complete, and read from `params.yaml` here and nowhere else.

`params.yaml` is generated from profiles by `turnwise profile use NAME...`; edit it freely afterwards.
"""

import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from turnwise.episodes import describe
from turnwise.errors import UserError
from turnwise.protocols import PROTOCOLS

PARAMS = Path("params.yaml")
BENCHMARK_LEVELS = 3
"""Levels of ProactiveVideoQA's rubric (arXiv 2507.09313, section 3)."""

Count = Annotated[int, Field(ge=1, strict=True)]
Natural = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
CreditRule = Literal["grpo", "dr_grpo", "rloo", "turnwise", "difference", "return_to_go", "mt_grpo", "gigpo", "gdpo"]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "turn-mean", "turn-sum-norm"]
_RULES_THAT_TAKE = {"alpha": ("turnwise",), "gamma": ("return_to_go", "gigpo"), "turn_weight": ("mt_grpo", "gigpo")}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Arm(_Section):
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


class Data(_Section):
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


class Stream(_Section):
    """How a clip becomes turns."""

    frame_interval: Positive
    """Seconds between frames shown."""
    frames_per_turn: Count
    """Frames shown at each decision."""


class Policy(_Section):
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
    """Type of the weights."""
    freeze_vision: bool
    """Keep the vision tower as SFT left it during RL."""

    @model_validator(mode="after")
    def _heads_fit(self) -> "Policy":
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden: {self.hidden} must be a multiple of twice the {self.heads} heads")
        return self


class Sft(_Section):
    """Supervised warm-up: single-frame items first, then streamed demonstrations."""

    caption_steps: Natural
    """Optimizer steps on single-frame items."""
    caption_batch: Count
    """Items a step."""
    stream_steps: Natural
    """Optimizer steps on streamed demonstrations."""
    stream_batch: Count
    """Demonstrations a step."""
    lr: Positive
    """Peak learning rate; linear warm-up over the first tenth, then cosine to a tenth."""
    weight_decay: NonNegative
    """AdamW weight decay."""


class Rollout(_Section):
    """Sampling."""

    group_size: Annotated[int, Field(ge=2)]
    """G, trajectories of an episode."""
    groups: Count
    """Groups sampled from the SFT policy, in epoch order; at least rl.groups_per_update."""
    temperature: Positive
    """Sampling temperature (no unit)."""
    top_k: Natural
    """Keep the k likeliest tokens; 0 keeps all."""
    top_p: Annotated[float, Field(gt=0, le=1)]
    """Keep the likeliest tokens up to this mass."""
    max_action_tokens: Annotated[int, Field(ge=2)]
    """Token cap of an action, the end-of-turn token included."""
    max_context: Count
    """Tokens of the longest conversation that is rolled out; a longer one is refused before sampling."""


class JudgeSpec(_Section):
    """One judge: all that can change a verdict. How its server is reached stands in `judge.servers`."""

    kind: Literal["rule", "strict", "openai"]
    """`rule`: compares the informative words of reply and reference. `strict`: another such judge, harder to please and
    noisy. `openai`: a model behind an OpenAI-compatible server."""
    levels: Annotated[int, Field(ge=2)]
    """Levels of the rubric; a score is 0..levels-1. `openai` has rubrics of 3 and of 5."""
    model: str = ""
    """Name by which the server knows the model. `openai`, as all that follows."""
    server: str = ""
    """Name of its entry in `judge.servers`."""
    temperature: NonNegative | None = 0.0
    """Sampling temperature (no unit); null sends none, for models that refuse it."""
    seed: Natural | None = 0
    """Sampling seed; null sends none."""
    max_tokens: Count = 1024
    """Most tokens of an answer, reasoning included; an answer cut there is an abstention."""
    structured: bool = True
    """Have the server hold the answer to a JSON schema; false for a server that cannot."""
    extra: dict[str, Any] = {}
    """Further fields of the request as they are, e.g. {reasoning_effort: low}."""

    @property
    def name(self) -> str:
        """Shown with every score: the kind, or the model, and the levels."""
        return f"{self.model or self.kind}-{self.levels}"

    @model_validator(mode="after")
    def _settings_of_the_kind(self) -> "JudgeSpec":
        given = [name for name in type(self).model_fields if getattr(self, name) != type(self).model_fields[name].default]
        further = [name for name in given if name not in ("kind", "levels")]
        if self.kind != "openai" and further:
            raise ValueError(f"kind: {self.kind} takes no {further[0]}; it belongs to openai")
        if self.kind == "openai" and not (self.model and self.server):
            raise ValueError("kind: openai needs a model and the name of a server")
        if self.kind == "openai" and self.levels not in (3, 5):
            raise ValueError("levels: openai has rubrics of 3 and of 5 levels")
        return self


class Server(_Section):
    """How an OpenAI-compatible server is reached. No verdict depends on it, so changing it makes nothing stale."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")]
    """Up to and with /v1; without a name, password or key in it."""
    key: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] = ""
    """Name of the environment variable that holds the key, never the key itself; empty for a server that needs none."""
    concurrency: Count = 16
    """Calls at a time."""
    timeout: Positive = 60.0
    """Most seconds of a call."""
    batch_timeout: Positive = 3600.0
    """Most seconds of all the calls that a stage or an update has to make together."""
    retries: Natural = 4
    """Further calls after one that ran out of time, found no server, or was answered with 408, 409, 425, 429 or 5xx."""


class Price(_Section):
    """What a model costs, in any one currency for each million tokens."""

    prompt: NonNegative
    """Tokens sent."""
    completion: NonNegative
    """Tokens answered."""


class Budget(_Section):
    """The most that all calls ever booked in the cache of verdicts may come to; null is no limit."""

    calls: Natural | None = None
    """Calls, failed ones included."""
    tokens: Natural | None = None
    """Tokens sent and answered, as the servers say."""
    money: NonNegative | None = None
    """Money, by `prices`."""
    prices: dict[str, Price] = {}
    """Price of each model."""


class Judges(_Section):
    """Training rewards and evaluation scores name their judges apart."""

    train: JudgeSpec
    """Judge of rewards."""
    eval: JudgeSpec
    """Judge of benchmarks."""
    others: dict[str, JudgeSpec] = {}
    """Further judges, for `turnwise judge compare`; no stage asks them."""
    servers: dict[str, Server] = {}
    """Servers of `openai` judges by name."""
    abstain: Literal["drop_point", "drop_trajectory", "stop"] = "drop_point"
    """What an abstention does: the reply counts for nothing, its whole trajectory (benchmark item) does, or the run stops."""
    max_abstained: Share = 0.1
    """Share of the verdicts of a stage, or of an update, from above which abstentions stop the run."""
    budget: Budget = Budget()
    """What judging may cost."""

    @property
    def named(self) -> dict[str, JudgeSpec]:
        """All judges by name: train, eval, and the others."""
        return {"train": self.train, "eval": self.eval, **self.others}

    @model_validator(mode="after")
    def _reachable_and_priced(self) -> "Judges":
        for name, spec in self.named.items():
            if spec.kind != "openai":
                continue
            if spec.server not in self.servers:
                raise ValueError(f"{name}.server: {spec.server!r} is not in judge.servers")
            if self.budget.money is not None and spec.model not in self.budget.prices:
                raise ValueError(f"budget.prices: a budget of money needs the price of {spec.model!r}")
        return self


class Reward(_Section):
    """MMDuet2's four terms, arXiv 2512.06810 section 4.3.2."""

    name: Literal["mmduet2"]
    """Reward rule."""
    pauc: NonNegative
    """Weight of PAUC."""
    repetition: NonNegative
    """Weight of the repetition penalty."""
    outside: NonNegative
    """Weight of the penalty for replies outside every window."""
    prefix: NonNegative
    """Weight of the penalty for long common prefixes."""
    omega: Share
    """PAUC's trade of timeliness (0) for correctness (1)."""
    prefix_chars: Count
    """Characters of a common prefix that counts as long."""


class Credit(_Section):
    """Group statistics of A_global and A_turn; the same for all arms."""

    eps: NonNegative
    """Added to the group's standard deviation (reward units)."""
    ddof: Literal[0, 1]
    """Delta degrees of freedom of the standard deviation."""
    a_max: Positive
    """Advantages are clipped at plus and minus this."""
    zero_spread: Literal["drop", "floor", "keep"]
    """Groups whose rewards are all equal: no gradient (drop), a floor of 1 under the spread, or eps alone."""


class Rl(_Section):
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


class Evaluate(_Section):
    """The three benchmarks."""

    batch: Count
    """Streams in lock-step."""
    omega: Share
    """PAUC's omega of the headline."""
    tolerance: NonNegative
    """Seconds within which an event is matched, inclusive."""
    metronome: Positive
    """Period of the blind metronome baseline, seconds."""


class Runtime(_Section):
    """How stages run; no result depends on it but through floating-point order."""

    threads: Count
    """Torch threads of a stage."""
    device: Literal["auto", "cpu", "cuda"]
    """Where the model lives."""


class Params(_Section):
    """Everything that an experiment is made of."""

    profiles: tuple[str, ...]
    """Names of the profiles that this file was generated from."""
    seeds: tuple[Natural, ...]
    """Seeds of the ablation; a cell is one arm with one seed."""
    arms: dict[str, Arm]
    """The arms by name."""
    data: Data
    stream: Stream
    protocol: str
    """How silence and replies are written."""
    policy: Policy
    sft: Sft
    rollout: Rollout
    judge: Judges
    reward: Reward
    credit: Credit
    rl: Rl
    evaluate: Evaluate
    runtime: Runtime

    @field_validator("arms")
    @classmethod
    def _arm_names(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        for name in arms:
            if not name.replace("_", "").isalnum() or not name.isascii() or name == "sft":
                raise ValueError(f"{name!r} is no arm name: use ASCII letters, digits and _ (and not `sft`)")
        if not arms:
            raise ValueError("at least one arm is needed")
        return arms

    @model_validator(mode="after")
    def _fits(self) -> "Params":
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: must be one or more different numbers, got {list(self.seeds)}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol: {self.protocol!r} is unknown; choose one of {', '.join(sorted(PROTOCOLS))}")
        if self.data.min_turns > self.data.max_turns:
            raise ValueError("data.min_turns: must not be above data.max_turns")
        if self.judge.eval.levels != BENCHMARK_LEVELS:
            raise ValueError(f"judge.eval.levels: must be {BENCHMARK_LEVELS}, the levels of ProactiveVideoQA's rubric")
        if self.rollout.groups < self.rl.groups_per_update:
            raise ValueError("rollout.groups: must be at least rl.groups_per_update; update 1 learns from those groups")
        return self

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises UserError listing the arms there are."""
        if name not in self.arms:
            raise UserError(f"params.yaml: arms: there is no arm {name!r}; the arms are {', '.join(self.arms)}")
        return self.arms[name]


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice, which YAML would silently resolve to the later one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a mapping. Raises UserError naming the file and the line."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `turnwise profile use embedded` writes params.yaml") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold a mapping, not {type(value).__name__}")
    return value


def validate(values: dict[str, Any], source: str | Path) -> Params:
    """Typed parameters from a mapping. Raises UserError naming the source, the field and the reason."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{source}: {describe(error)}{_known_keys(error)}") from None


def _known_keys(error: ValidationError) -> str:
    """For an unknown key: the keys that its section knows."""
    fault = error.errors()[0]
    if fault["type"] != "extra_forbidden":
        return ""
    section: Any = Params
    for part in fault["loc"][:-1]:
        entries = typing.get_args(section)
        section = entries[1] if entries else section.model_fields[part].annotation
    return f"; known are {', '.join(section.model_fields)}"


def read_params(path: str | Path = PARAMS) -> Params:
    """Read and check `params.yaml`. Raises UserError naming file, field and remedy."""
    return validate(read_yaml(Path(path)), path)


def merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Overlay a nested mapping on another; `arms` and lists are replaced whole."""
    merged = dict(base)
    for key, value in overlay.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict) and key != "arms"
        merged[key] = merge(base[key], value) if nested else value
    return merged


def compose(names: list[str], folder: str | Path = "profiles") -> dict[str, Any]:
    """Parameters of profiles laid over `embedded.yaml`, the later one winning. Raises UserError for an unknown name."""
    known = sorted(path.stem for path in Path(folder).glob("*.yaml"))
    for name in names:
        if name not in known:
            raise UserError(f"{folder}: there is no profile {name!r}; the profiles are {', '.join(known)}")
    values: dict[str, Any] = {}
    for name in dict.fromkeys(["embedded", *names]):
        values = merge(values, read_yaml(Path(folder) / f"{name}.yaml"))
    values = {"profiles": list(dict.fromkeys(names)) or ["embedded"], **values}
    validate(values, f"{folder}/{{{','.join(names)}}}.yaml")
    return values
