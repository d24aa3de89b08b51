"""A full disk, a folder that takes no writing, no memory left, Ctrl-C: one clear message, outputs whole or absent, and the
same command goes on afterwards."""

import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kill_at import Limit, Signal, leftovers, stage

RL, SFT, EVALUATE = "rl turnwise 0", "sft 0", "evaluate turnwise 0"
TOKEN = "turnwise.policy.sampler:HfSampler._step"


def message(said: str) -> str:
    """The one message, which comes last; MLflow, whose faults never stop a stage, may have complained before it."""
    lines = [line for line in said.splitlines() if line.startswith(("error: ", "interrupted", "Traceback"))]
    assert len(lines) == 1, said
    assert said.splitlines()[-1] == lines[0]
    return lines[0]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`disk(folder, options)`: move a folder to a tmpfs of its own; called again, change its options."""
    place = tmp_path / "disk"

    def mount(folder: Path, options: str) -> Path:
        again = ["-o", f"remount,{options}"] if place.exists() else ["-t", "tmpfs", "-o", options, "tmpfs"]
        fresh = not place.exists()
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", *again, str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting needs rights: {done.stderr.strip()}")
        if fresh:
            shutil.copytree(folder, place, dirs_exist_ok=True)
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "room"), [(SFT, 8), (SFT, 500), (RL, 100), (RL, 1500), (EVALUATE, 8), (EVALUATE, 60)]
)
def test_a_full_disk(before, resumes, disk, words, room):
    folder = before(words)
    place = disk(folder, "size=64m")
    disk(folder, f"size={shutil.disk_usage(place).used // 1024 + room}k")
    ended = stage(place, words)
    assert ended.status == 1, ended.said
    assert message(ended.said).startswith("error: ")
    assert leftovers(place) == []
    disk(folder, "size=64m")
    resumes("full disk", place, words)


@pytest.mark.parametrize(("words", "room"), [(SFT, 30_000)])
def test_a_file_that_may_not_grow(before, resumes, words, room):
    folder = before(words)
    ended = stage(folder, words, Limit("tasks.sft:timed", resource.RLIMIT_FSIZE, room))
    assert ended.status == 1, ended.said
    assert "File too large" in message(ended.said)
    assert leftovers(folder) == []
    resumes("file-size limit", folder, words)


@pytest.mark.slow
@pytest.mark.parametrize("words", [SFT, RL, EVALUATE, "data"])
def test_a_folder_that_takes_no_writing(before, resumes, disk, words):
    folder = before(words)
    place = disk(folder, "size=64m")
    disk(folder, "ro")
    ended = stage(place, words)
    assert ended.status == 1, ended.said
    assert "Read-only file system" in message(ended.said)
    disk(folder, "rw")
    resumes("read-only folder", place, words)


@pytest.mark.parametrize(("words", "target"), [(EVALUATE, TOKEN)])
def test_no_memory_left(before, resumes, words, target):
    folder = before(words)
    ended = stage(folder, words, Limit(target, resource.RLIMIT_AS, 0))
    assert ended.status == 1, ended.said
    assert "out of memory" in message(ended.said)
    assert leftovers(folder) == []
    resumes("out of memory", folder, words)


@pytest.mark.parametrize(
    ("words", "number", "target", "status"),
    [
        (SFT, signal.SIGINT, "turnwise.training.sft:_step", 130),
        pytest.param(RL, signal.SIGINT, TOKEN, 130, marks=pytest.mark.slow),
        pytest.param(RL, signal.SIGTERM, TOKEN, 143, marks=pytest.mark.slow),
        pytest.param(EVALUATE, signal.SIGINT, TOKEN, 130, marks=pytest.mark.slow),
    ],
)
def test_asked_to_stop(before, resumes, words, number, target, status):
    folder = before(words)
    ended = stage(folder, words, Signal(target, number, call=12))
    assert ended.status == status, ended.said
    assert status != 130 or message(ended.said).startswith("interrupted;")
    assert leftovers(folder) == []
    resumes(f"{signal.Signals(number).name}", folder, words)
