"""Run a command so that nothing of it outlives its starter: `python -m flows.leash COMMAND...`.

The starter holds this process by its standard input. When it lets go, by closing the pipe or by dying in whatever way
(SIGKILL too), the command's whole process group is asked to end, and after a while made to.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

GRACE = 10.0
"""Seconds between asking and making."""


@contextmanager
def leashed(command: Sequence[str], env: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a command with its output (both streams) in `.stdout`; on leaving the block its process group ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.leash", *command],
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        let_go(process)
        process.wait()


def let_go(process: "subprocess.Popen[str]") -> None:
    """Tell a leash to end its command, without waiting for it; a command that has ended is left alone."""
    if process.stdin:
        process.stdin.close()


def end_group(group: int) -> None:
    """SIGTERM to a process group, SIGKILL to what is left of it after the grace; returns when it is empty."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            time.sleep(0.05)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Run the command of the command line and exit with its status."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def watch() -> None:
        sys.stdin.read()
        end_group(child.pid)

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    end_group(child.pid)
    sys.exit(status)


if __name__ == "__main__":
    main()
