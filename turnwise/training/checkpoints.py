"""Checkpoints that a killed run resumes from: tensors as safetensors (never pickle), the rest as JSON, whole or absent.

No random state is stored: every draw of training is derived from (seed, update, episode, index), so there is none.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from turnwise.files import replacing
from turnwise.progress import emit

Tensors = dict[str, torch.Tensor]
FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")


@dataclass(frozen=True)
class Checkpoint:
    """What stood after a completed update."""

    update: int
    weights: Tensors
    optimizer: Tensors
    state: dict[str, Any]


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimizer's state by `<parameter number>.<name>`."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": torch.as_tensor(value) for i, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Put back what `optimizer_tensors` took; the parameter groups keep their own settings."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> None:
    """Write `folder/update-<u>` by rename, with a checksum of each file, and remove all but the last `keep`."""
    with replacing(folder / f"update-{checkpoint.update:05d}") as scratch:
        scratch.mkdir()
        save_file({k: v.contiguous() for k, v in checkpoint.weights.items()}, scratch / "weights.safetensors")
        save_file({k: v.contiguous() for k, v in checkpoint.optimizer.items()}, scratch / "optimizer.safetensors")
        (scratch / "state.json").write_text(json.dumps({"update": checkpoint.update, **checkpoint.state}))
        sums = {name: _sha256(scratch / name) for name in FILES}
        (scratch / "sha256.json").write_text(json.dumps(sums))
    for old in _found(folder)[:-keep]:
        shutil.rmtree(old)


def latest_checkpoint(folder: Path, usable: Callable[[int], bool] = lambda _: True) -> Checkpoint | None:
    """The newest checkpoint that is whole and, by its update, `usable`; others are passed over, saying so. None: no such."""
    for path in reversed(_found(folder)):
        try:
            sums = json.loads((path / "sha256.json").read_text())
            damaged = [name for name in FILES if _sha256(path / name) != sums[name]]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            damaged = [repr(error)]
        if not damaged and not usable(int(path.name.rpartition("-")[2])):
            damaged = ["tables of its updates"]
        if damaged:
            emit("warning", message=f"{path}: damaged ({', '.join(damaged)}); falling back to the checkpoint before")
            continue
        state = json.loads((path / "state.json").read_text())
        weights, optimizer = (load_file(path / f"{name}.safetensors") for name in ("weights", "optimizer"))
        return Checkpoint(state.pop("update"), weights, optimizer, state)
    return None


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("update-*"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
