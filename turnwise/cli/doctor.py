"""`turnwise doctor`: what stands between this machine and a run, each with its remedy."""

import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnwise.cli.settings import is_port
from turnwise.errors import UserError

if TYPE_CHECKING:
    from turnwise.config import Params

Grade = Literal["ok", "note", "fault"]
SIGNS: dict[Grade, str] = {"ok": "✓", "note": "·", "fault": "✗"}
GIB = 2**30
ROOM = 5 * GIB
"""Free disk space under which an ablation of the default profile may not fit, cache and environment included."""


@dataclass(frozen=True)
class Finding:
    """What a check found; a remedy where there is something to do."""

    grade: Grade
    what: str
    remedy: str = ""


def doctor(
    data: Annotated[Path, typer.Option(help="The folder with your episodes and clips.")] = Path("data"),
) -> None:
    """Check Python, packages, disk, GPU, ports, parameters, data, judges, git and DVC; say the remedy of each fault.

    Exits with 1 where something is in the way of a run. Notes (·) are worth knowing and stop nothing.

    Examples:

    - `turnwise doctor`

    - with episodes elsewhere: `turnwise doctor --data /mnt/streams`
    """
    from turnwise.config import read_params

    found: list[Finding] = []
    try:
        params = read_params()
    except UserError as error:
        params = None
        found.append(Finding("fault", f"parameters: {error}", "edit params.yaml, or `turnwise profile use embedded`"))
    checks: list[Callable[[], Iterator[Finding]]] = [
        python,
        packages,
        disk,
        gpu,
        ports,
        lambda: episodes(data),
        unfinished,
    ]
    if params:
        found.append(Finding("ok", f"parameters: {' + '.join(params.profiles)}"))
        checks.append(lambda: judges(params))
    for check in [*checks, repository]:
        found += check()
    for one in found:
        print(f"{SIGNS[one.grade]} {one.what}" + (f"\n  → {one.remedy}" if one.remedy else ""))
    if any(one.grade == "fault" for one in found):
        raise typer.Exit(1)


def python() -> Iterator[Finding]:
    """Its version."""
    version = ".".join(map(str, sys.version_info[:3]))
    fits = sys.version_info >= (3, 11)
    yield Finding("ok" if fits else "fault", f"Python {version}", "" if fits else "make setup PYTHON=python3.11")


def packages() -> Iterator[Finding]:
    """The environment against requirements.lock."""
    lock = Path("requirements.lock")
    if not lock.is_file():
        yield Finding("note", "packages: no requirements.lock here", "run this in the repository's root")
        return
    said = lock.read_text(encoding="utf-8", errors="replace")
    wanted = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", said, re.MULTILINE))
    off = [
        f"{name} {_installed(name)} (locked {version})" for name, version in wanted.items() if not _is(name, version)
    ]
    if off:
        more = f" and {len(off) - 3} more" if len(off) > 3 else ""
        yield Finding("fault", f"packages: {', '.join(off[:3])}{more}", "make setup")
    else:
        yield Finding("ok", f"packages: all {len(wanted)} as locked")


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _is(name: str, version: str) -> bool:
    return _installed(name).partition("+")[0] == version


def disk() -> Iterator[Finding]:
    """Free space where runs are written."""
    free = shutil.disk_usage(".").free
    enough = free >= ROOM
    remedy = "" if enough else f"free {(ROOM - free) / GIB:.1f} GiB, or `dvc gc -w` to drop outputs of other versions"
    yield Finding("ok" if enough else "fault", f"disk: {free / GIB:.0f} GiB free", remedy)


def gpu() -> Iterator[Finding]:
    """What torch computes on."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / GIB
        yield Finding("ok", f"GPU: {torch.cuda.get_device_name(0)}, {memory:.0f} GiB")
    else:
        yield Finding("note", "GPU: none; the embedded profile needs none, real checkpoints do")


def ports() -> Iterator[Finding]:
    """The ports of Prefect's server and the MLflow UI: free, or ours."""
    for name, variable, default, path in (
        ("Prefect", "TURNWISE_PORT", "4200", "/api/health"),
        ("MLflow", "TURNWISE_MLFLOW_PORT", "5000", "/health"),
    ):
        port = os.environ.get(variable, default)
        if not is_port(port):
            yield Finding("fault", f"{variable}: {port!r} is no port", "give a number from 1 to 65535")
        elif not _listens(int(port)):
            yield Finding("ok", f"port {port}: free for {name}")
        elif _answers(f"http://127.0.0.1:{port}{path}"):
            yield Finding("ok", f"port {port}: {name} runs there")
        else:
            yield Finding("fault", f"port {port}: taken by something that is not {name}", f"stop it, or set {variable}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str, key: str = "") -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


def episodes(data: Path) -> Iterator[Finding]:
    """Episodes and demonstrations of a data root, and whether their clips are there."""
    from turnwise.episodes import read_demonstrations, read_episodes

    readers = {"rl": read_episodes, "dev": read_episodes} | dict.fromkeys(
        ("captions", "demonstrations"), lambda path: [one.episode for one in read_demonstrations(path)]
    )
    paths = {data / f"{name}.jsonl": read for name, read in readers.items()}
    if not any(path.is_file() for path in paths):
        yield Finding("note", f"data: no {next(iter(paths))} yet", "`dvc repro data` builds the embedded world's")
        return
    for path, read in paths.items():
        try:
            found = read(path)
        except UserError as error:
            yield Finding("fault", f"data: {error}")
            continue
        missing = sorted({episode.clip for episode in found if not (data / episode.clip).is_file()})
        if missing:
            told = f"data: {path}: {len(missing)} clips are missing, such as {data / missing[0]}"
            yield Finding("fault", told, "put them there")
        else:
            yield Finding("ok", f"data: {len(found)} episodes in {path}, every clip is there")


def unfinished() -> Iterator[Finding]:
    """Checkpoints and predictions of stages that did not end; one that ends removes its own."""
    folders = [folder for stage in ("sft", "rl", "evaluate") for folder in Path("state", stage).glob("*")]
    if folders:
        size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
        found = f"state: {len(folders)} stages did not end ({size / GIB:.1f} GiB), {folders[0]} among them"
        remedy = "`dvc repro` goes on with those of these parameters and this code; after it, the others can be removed"
        yield Finding("note", found, remedy)


def judges(params: "Params") -> Iterator[Finding]:
    """Whether the judges can be asked."""
    for use, spec in (("train", params.judge.train), ("eval", params.judge.eval)):
        if spec.kind != "openai":
            yield Finding("ok", f"judge.{use}: {spec.name}, in this process")
            continue
        server = params.judge.servers[spec.server]
        key = os.environ.get(server.key, "")
        if server.key and not key:
            yield Finding("fault", f"judge.{use}: {server.key} is not set", f"export {server.key}=...")
        elif _answers(f"{server.base_url.rstrip('/')}/models", key):
            yield Finding("ok", f"judge.{use}: {spec.name} at {server.base_url}")
        else:
            yield Finding(
                "fault", f"judge.{use}: {server.base_url}/models does not answer", "start the server, check the key"
            )


def repository() -> Iterator[Finding]:
    """git, DVC, and what `dvc repro` would run."""
    if not Path(".dvc").is_dir():
        yield Finding("fault", "DVC: no .dvc here", "run this in the repository's root")
        return
    if subprocess.run(["git", "rev-parse"], capture_output=True, check=False).returncode:
        yield Finding("fault", "git: this folder is in no repository", "git init")
        return
    yield Finding("ok", "git: a repository, which DVC needs")
    asked = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        said = (asked.stderr.strip().splitlines() or ["no reason given"])[-1]
        yield Finding("fault", f"DVC: {said}", "dvc status")
        return
    stale = len(json.loads(asked.stdout or "{}"))
    yield Finding("ok", "DVC: up to date" if not stale else f"DVC: {stale} stages are stale; `dvc repro` runs them")
