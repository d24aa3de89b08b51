"""One stage as one Prefect task: DVC decides whether it runs, its output becomes logs and progress, its end a state."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from prefect import Task, get_run_logger, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed

from flows.leash import GRACE, leashed, let_go

RUNNING: set["subprocess.Popen[str]"] = set()
"""Leashed processes of the stages now running, so that a flow that ends can let go of them."""
ENDING = threading.Event()
"""Set where the flow ends before its stages: none is tried again."""
HINTS = ("To track the changes with git", "\tgit add ", "To enable auto staging", "\tdvc config ", "Use `dvc push`")
"""Beginnings of the advice that DVC prints after each stage; it is not logged."""
TRACK = [sys.executable, "-m", "turnwise.cli", "track"]
"""What brings MLflow's view of the runs up to date."""
LOG_EVERY = 10.0
"""Seconds between a stage's steps of progress, in the log and its artifact: each costs the server some work."""


class StageFailed(RuntimeError):
    """A stage's command did not succeed."""


class BadInput(StageFailed):
    """A stage refused its input (exit status 2): running it again cannot help."""


def _worth_a_retry(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    return not ENDING.is_set() and not isinstance(state.result(raise_on_failure=False), BadInput)


@task(
    name="stage",
    task_run_name="{stage}",
    cache_policy=NO_CACHE,
    retries=1,
    retry_delay_seconds=5,
    retry_condition_fn=_worth_a_retry,
)
def reproduce(stage: str) -> State[Any]:
    """Bring one stage up to date. The state is Completed, or Skipped where DVC found nothing to do.

    Raises BadInput where the stage refused its input and StageFailed for any other failure.
    """
    lines = follow(stage, [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage])
    idle = [line for line in lines if re.search(r"didn't change, skipping|is cached - skipping", line)]
    return Completed(name="Skipped" if idle else "Completed", message=idle[0] if idle else f"{stage} ran", data=stage)


@task(task_run_name="{stage}", cache_policy=NO_CACHE)
def skip(stage: str, missing: list[str]) -> State[Any]:
    """Leave out a stage whose cells are not all there; the state names them."""
    message = f"{stage} is skipped: missing or not up to date are {', '.join(missing)}"
    get_run_logger().warning(message)
    return Completed(name="Skipped", message=message)


@task(task_run_name="track", cache_policy=NO_CACHE)
def track() -> None:
    """Bring MLflow's view of the runs up to date. Raises StageFailed."""
    follow("track", TRACK)


def follow(name: str, command: list[str]) -> list[str]:
    """Run a command to its end, logging its lines; returns the last 200, progress apart.

    Raises BadInput (a stage said that its input is wrong) or StageFailed.
    """
    log, progress, tail = get_run_logger(), Progress(name), deque[str](maxlen=200)
    with held(leashed(command, environment())) as process:
        for line in map(str.rstrip, process.stdout or ()):
            if event := progress_event(line):
                shown = progress.update(event)
            else:
                shown = None if line.startswith(HINTS) else line
                tail.append(line)
            if shown:
                log.info(shown)
        status = process.wait()
    if status:
        raise failure(name, status, list(tail))
    return list(tail)


def failure(name: str, status: int, lines: list[str]) -> StageFailed:
    """What to raise for a command that failed: with the stage's own `error:` line where it printed one."""
    said = [line for line in lines if line.startswith("error: ")][-1:] or lines[-12:]
    refused = any(re.search(r"exited with 2\b", line) for line in lines)
    return (BadInput if refused else StageFailed)(f"{name}: exit status {status}: " + "\n".join(said))


@contextmanager
def held(leash: AbstractContextManager["subprocess.Popen[str]"]) -> Iterator["subprocess.Popen[str]"]:
    """Count a leashed process among those running. Raises StageFailed where the flow is ending."""
    if ENDING.is_set():
        raise StageFailed("not started: the flow is ending")
    with leash as process:
        RUNNING.add(process)
        try:
            yield process
        finally:
            RUNNING.discard(process)


def environment() -> dict[str, str]:
    """The environment of a stage: this interpreter is its `python`, and its lines arrive as they are printed."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "DVC_NO_ANALYTICS": "1"}


def progress_event(line: str) -> dict[str, Any] | None:
    """The progress event of a line that a stage printed (turnwise/progress.py), or None for any other line."""
    with suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict) and event.get("event") == "progress":
            return event
    return None


class Progress:
    """The progress of one stage: an artifact for each label, and now and then a line to log."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._artifacts: dict[str, UUID] = {}
        self._logged = float("-inf")

    def update(self, event: Mapping[str, Any]) -> str | None:
        """Show a progress event; returns the line to log, if it is time for one."""
        now = time.monotonic()
        if event["done"] < event["total"] and now - self._logged < LOG_EVERY:
            return None
        self._logged = now
        self._show(event["label"], 100 * event["done"] / max(1, event["total"]))
        return progress_line(event)

    def _show(self, label: str, percent: float) -> None:
        with suppress(httpx.HTTPError):  # a server that is away for a moment must not end hours of work
            if label in self._artifacts:
                update_progress_artifact(self._artifacts[label], percent)
            else:
                slugs = (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in (self._stage, label))
                key = "-".join(dict.fromkeys(slugs))
                made = create_progress_artifact(percent, key=key, description=self._stage)
                self._artifacts[label] = cast(UUID, made)


def progress_line(event: Mapping[str, Any]) -> str:
    """`rl grpo 0: 12/40, 31.5 s, reward 1.234`"""
    fixed = ("event", "label", "done", "total", "seconds")
    figures = [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in event.items() if k not in fixed]
    seconds = [f"{event['seconds']} s"] if "seconds" in event else []
    return f"{event['label']}: " + ", ".join([f"{event['done']}/{event['total']}", *seconds, *figures])


@contextmanager
def holding_stages() -> Iterator[None]:
    """On leaving the block, however it is left, every stage that still runs is ended; so is a flow whose worker dies."""
    ENDING.clear()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        yield
    finally:
        ENDING.set()
        for process in list(RUNNING):
            let_go(process)


def _end_with(starter: int) -> None:
    """Ask this process to end, as Prefect's own cancelling does, once the process that started it is gone; then make it."""
    while not ENDING.wait(1.0):
        if os.getppid() != starter:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(2 * GRACE)
            os._exit(143)
