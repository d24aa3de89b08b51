"""A finished experiment of one arm and one seed, small enough to be run again and again, and an account of what broke."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from account import ACCOUNT, add, books, table
from kill_at import ROOT, contents, outputs, stage

from turnwise.config import compose, merge

SMALL = {
    "seeds": [0],
    "arms": {"turnwise": {"credit": "turnwise", "alpha": 1.0, "aggregation": "turn-mean"}},
    "data": {
        "sft_clips": 3,
        "rl_clips": 3,
        "dev_clips": 1,
        "benchmark_clips": 1,
        "captions": 32,
        "min_turns": 7,
        "max_turns": 8,
        "episodes_per_clip": 2,
    },
    "policy": {"hidden": 32, "layers": 2, "vision_hidden": 32, "vision_layers": 1},
    "sft": {
        "caption_steps": 6,
        "caption_batch": 8,
        "stream_steps": 10,
        "stream_batch": 4,
        "lr": 0.01,
        "checkpoint_every": 4,
    },
    "rollout": {"group_size": 3, "groups": 2, "max_action_tokens": 6},
    "rl": {"updates": 3, "groups_per_update": 2, "micro_batch": 3, "validate_every": 2, "lr": 0.001},
    "evaluate": {"batch": 2},
}
CHAIN = ("data", "sft 0", "rollout 0", "judge 0", "sweep 0", "rl turnwise 0", "evaluate turnwise 0")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every stage has run without interruption."""
    folder = tmp_path_factory.mktemp("finished")
    params = merge(compose([], ROOT / "profiles"), SMALL)
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    for words in CHAIN:
        ended = stage(folder, words)
        assert ended.status == 0, f"{words}: {ended.said}"
    return folder


@pytest.fixture
def before(finished: Path, tmp_path: Path) -> Callable[[str], Path]:
    """`before(stage)`: a copy of the finished folder as it was before that stage."""

    def copy(words: str) -> Path:
        folder = tmp_path / words.replace(" ", "-")
        shutil.copytree(finished, folder, ignore=shutil.ignore_patterns("verdicts.sqlite*", "timings"))
        for later in CHAIN[CHAIN.index(words) :]:
            for path in outputs(later):
                shutil.rmtree(folder / path) if (folder / path).is_dir() else (folder / path).unlink(missing_ok=True)
        return folder

    return copy


@pytest.fixture
def resumes(finished: Path) -> Callable[..., None]:
    """`resumes(fault, folder, stage)`: run a broken stage again, compare with the uninterrupted run, book the outcome."""

    def again(fault: str, folder: Path, words: str, *counters: Callable[[], None], lost: int = 0) -> None:
        expected, row = contents(finished, words), ACCOUNT[fault]
        row["tried"] += 1
        broken = [path for path, found in contents(folder, words).items() if found != expected.get(path)]
        ended = stage(folder, words, *counters)
        found = contents(folder, words)
        missing = [path for path in expected if found.get(path) != expected[path]]
        row["resumed"] += ended.status == 0
        row["lost"] += len(broken) + len(missing) + lost
        assert ended.status == 0, ended.said
        assert broken == [], "outputs must be whole or absent"
        assert missing == []
        assert found.keys() == expected.keys()

    return again


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands in its account."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["account"] = books()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add a worker's account to this one."""
    if "account" in getattr(node, "workeroutput", {}):
        add(node.workeroutput["account"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was broken and what came of it."""
    for line in table():
        terminalreporter.write_line(line)
