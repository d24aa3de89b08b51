"""The experiment's configuration: typed, complete, and read from `params.yaml` here and nowhere else.

`params.yaml` is generated from profiles by `turnwise profile use NAME...`; edit it freely afterwards.
"""

import re
import typing
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError, field_validator, model_validator

from turnwise.config.fields import Natural, Section
from turnwise.config.judges import Judges
from turnwise.config.rewards import Reward, StreamProReward
from turnwise.config.sections import Arm, Credit, Data, Evaluate, Lora, Policy, Rl, Rollout, Runtime, Sft, Stream
from turnwise.episodes import describe, faults_of
from turnwise.errors import UserError
from turnwise.protocols import PROTOCOLS

PARAMS = Path("params.yaml")
BENCHMARK_LEVELS = 3
"""Levels of ProactiveVideoQA's rubric (arXiv 2507.09313, section 3)."""


class Params(Section):
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
        if isinstance(self.reward, StreamProReward) and self.reward.rubric and self.reward.judged == "trajectory":
            raise ValueError(
                "reward.judged: a rubric of the whole trajectory pays a reply for what comes later, so a prefix has no "
                "score of its own, which the sweep and every turn rule need; choose prefix"
            )
        if self.rollout.groups < self.rl.groups_per_update:
            raise ValueError("rollout.groups: must be at least rl.groups_per_update; update 1 learns from those groups")
        return self

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises UserError listing the arms there are."""
        if name not in self.arms:
            raise UserError(f"params.yaml: arms: there is no arm {name!r}; the arms are {', '.join(self.arms)}")
        return self.arms[name]


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, which YAML would silently resolve to the later one; reads 1e-6 as a number.

    PyYAML takes that for text. DVC reads YAML 1.2, where it is a number, and writes it so to dvc.lock.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), "-+.0123456789"
)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a mapping. Raises UserError naming the file and the line."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `turnwise profile use embedded` writes params.yaml") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
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
    fault = faults_of(error)[0]
    if fault["type"] != "extra_forbidden":
        return ""
    section: Any = Params
    for part in fault["loc"][:-1]:
        section = _within(section, part)
    return f"; known are {', '.join(section.model_fields)}"


def _within(section: Any, part: Any) -> Any:
    """What a part of a fault's place leads to, from a section, a mapping of sections, or a choice of them by `name`."""
    choices = typing.get_args(section)
    if not choices:
        section = section.model_fields[part].annotation
    elif typing.get_origin(section) is dict:
        section = choices[1]
    else:
        section = next(one for one in choices if part in typing.get_args(one.model_fields["name"].annotation))
    return Lora if section == Lora | None else section


def read_params(path: str | Path = PARAMS) -> Params:
    """Read and check `params.yaml`. Raises UserError naming file, field and remedy."""
    return validate(read_yaml(Path(path)), path)


def merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Overlay a nested mapping on another; `arms`, lists, and a section that gets another `name` are replaced whole."""
    merged = dict(base)
    for key, value in overlay.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict) and key != "arms"
        renamed = nested and value.get("name", base[key].get("name")) != base[key].get("name")
        merged[key] = merge(base[key], value) if nested and not renamed else value
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
