"""Small policies of both families with weights large enough that positions and frames matter, and two real clips."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_policy import FAMILIES, TEXTS, config_for

from turnwise.episodes import Episode, Grid, HistoryTurn, Query
from turnwise.policy.embedded import build_embedded
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import Loaded, load_policy
from turnwise.protocols import NO_REPLY
from turnwise.videos import write_clip

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def clips(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("clips")
    for name, (height, width) in {"a.mp4": (64, 64), "b.mp4": (48, 112)}.items():
        rng = np.random.default_rng(len(name) + height)
        write_clip(root / name, [rng.integers(0, 255, (height, width, 3), dtype=np.uint8) for _ in range(40)], 4)
    return root


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        build_embedded(config_for(family), TEXTS, root / family, seed=1)
    return {family: root / family for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def policy(request, model_folders) -> Loaded:
    """Large random weights; the end of turn is made likelier so that actions of every length occur."""
    loaded = load_policy(config_for(request.param), NO_REPLY, model_folders[request.param], "cpu")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.12, generator=generator)
    loaded.bans[loaded.end_id] = 4.0
    return loaded


@pytest.fixture
def frames(policy, clips) -> FrameStore:
    return FrameStore(clips, policy)


@pytest.fixture(scope="session")
def episodes() -> list[Episode]:
    """Different clips and frame shapes, T of 4 and 2, two frames a turn in one, a history in the other."""
    past = tuple(HistoryTurn(time=t, frame_times=(t,), text=said) for t, said in ((1.0, "A red ball."), (2.0, None)))
    queries = (Query(text="How many cubes?", time=0.0), Query(text="And <|image_pad|> now?", time=4.2))
    return [
        Episode(
            id="long",
            clip="a.mp4",
            task="x",
            grid=Grid(frame_interval=1.0, frames_per_turn=2, turns=4),
            queries=queries,
            windows=(),
        ),
        Episode(
            id="past",
            clip="b.mp4",
            task="x",
            grid=Grid(start=2.0, frame_interval=1.0, turns=2),
            queries=queries[:1],
            windows=(),
            history=past,
        ),
    ]
