"""Nothing that a leash holds outlives its starter."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flows.leash import leashed, let_go

ROOT = Path(__file__).parents[2]
FAMILY = "sleep 300 & echo $!; sleep 300 & echo $!; wait"
DEAF = "trap '' TERM; sleep 300 & echo $!; wait"
STARTER = f"""
import os, time
from flows.leash import leashed
with leashed(["sh", "-c", {FAMILY!r}], os.environ) as process:
    for line in process.stdout: print(line, end="", flush=True)
"""


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_output_and_status_pass_through() -> None:
    with leashed(["sh", "-c", "echo out; echo err >&2; exit 7"], os.environ) as process:
        assert sorted(process.stdout) == ["err\n", "out\n"]
        assert process.wait() == 7


def test_letting_go_ends_the_whole_group() -> None:
    with leashed(["sh", "-c", FAMILY], os.environ) as process:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        let_go(process)
        assert process.wait(timeout=10) != 0
    assert all(map(gone, pids))


def test_leaving_the_block_ends_what_still_runs() -> None:
    with leashed(["sh", "-c", FAMILY], os.environ) as process:
        pid = int(process.stdout.readline())
    assert gone(pid)


def test_a_starter_that_is_killed_takes_the_group_along() -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    pids = [int(starter.stdout.readline()) for _ in range(2)]
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert all(map(gone, pids))


def test_who_does_not_listen_is_made_to_end() -> None:
    code = (
        "import sys; from flows import leash; leash.GRACE = 0.3; sys.argv[1:] = ['sh', '-c', sys.argv[1]]; leash.main()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, DEAF], stdin=pipe, stdout=pipe, text=True)
    pid = int(process.stdout.readline())
    process.stdin.close()
    assert process.wait(timeout=10) != 0
    assert gone(pid)
