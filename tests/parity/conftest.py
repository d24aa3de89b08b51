"""Small models on disk, which TRL reloads as its reference; each test puts back what TRL does to torch and accelerate."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from trl_side import save_model


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory) -> dict[str, Path]:
    folders = {family: tmp_path_factory.mktemp(family) for family in ("opt", "qwen2")}
    for family, folder in folders.items():
        save_model(folder, family)
    return folders


@pytest.fixture(autouse=True)
def _on_its_own(monkeypatch) -> Iterator[None]:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    with torch.random.fork_rng(devices=[]):
        yield
    AcceleratorState._reset_state(reset_partial_state=True)
