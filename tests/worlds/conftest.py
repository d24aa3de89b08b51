from pathlib import Path

import pytest

from turnwise.config import Data, Stream, compose, validate
from turnwise.worlds import build

SMALL = {"sft_clips": 10, "rl_clips": 10, "dev_clips": 2, "benchmark_clips": 4, "captions": 60, "fps": 2, "size": 56}
SMALLEST = SMALL | {"sft_clips": 2, "rl_clips": 1, "dev_clips": 1, "benchmark_clips": 1, "captions": 9}


@pytest.fixture(scope="session")
def data() -> Data:
    return Data.model_validate(compose([])["data"] | SMALL)


@pytest.fixture(scope="session")
def smallest(data) -> Data:
    return data.model_copy(update=SMALLEST)


@pytest.fixture(scope="session")
def params():
    return validate(compose([]), "profiles/embedded.yaml")


@pytest.fixture(scope="session")
def stream() -> Stream:
    return Stream(frame_interval=2.0, frames_per_turn=1)


@pytest.fixture(scope="session")
def world(data, stream, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    build(data, stream, root)
    return root
