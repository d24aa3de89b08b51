"""A flow process, a worker or a server that is killed: nothing goes on in the background, and running again finishes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
from account import ACCOUNT
from kill_at import ROOT

sys.path.insert(0, str(ROOT / "tests/flows"))
sys.path.insert(0, str(ROOT / "scripts"))
import stack
from toy_project import make_toy

pytestmark = pytest.mark.slow


class Running:
    """`stack.py ablation` at work in a toy project with one seed, whose stage sft@0 takes its time."""

    def __init__(self, root: Path) -> None:
        self.root, self.toy = root, make_toy(root)
        shutil.copytree(ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / "flows/stages.py").open("a") as stages, (root / "flows/full_ablation.py").open("a") as flow:
            stages.write('\nTRACK = ["true"]\n')
            flow.write("\npublish = print\n")
        stacked = (root / "scripts/stack.py").read_text()
        (root / "scripts/stack.py").write_text(stacked.replace("show(state[", "print(state["))
        self.toy.keep_seeds(0)
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TURNWISE_"))}
        ports = {"TURNWISE_PORT": stack.free_port(), "TURNWISE_MLFLOW_PORT": stack.free_port()}
        self.env = {**plain, **ports, "PYTHONPATH": str(root), "DVC_SITE_CACHE_DIR": f"{root}.site"}

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "scripts/stack.py", "ablation"]
        out = (self.root.with_name("said.txt")).open("w")
        return subprocess.Popen(command, cwd=self.root, env=self.env, stdout=out, stderr=out, text=True)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Those that work in the project's folder and have `word` in their command."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd() == str(self.root) and word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def said(self) -> str:
        """What `stack.py` printed."""
        return self.root.with_name("said.txt").read_text()

    def states(self) -> list[str]:
        """How every flow run ended, by the server's database."""
        with closing(sqlite3.connect(self.root / ".prefect/prefect.db")) as db:
            return [kind for (kind,) in db.execute("SELECT state_type FROM flow_run")]

    def wait_for(self, what: Callable[[], object], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, self.said()[-3000:]
            time.sleep(0.2)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    root = tmp_path / "toy"
    root.mkdir()
    one = Running(root)
    yield one
    for process in one.processes():
        process.kill()


VICTIMS = {
    "flow process": "prefect.engine",
    "worker": "worker start",
    "server": "server start",
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_running_again_finishes(running, victim):
    running.toy.wish({"sft@0": {"seconds": 15}})
    first = running.start()
    running.wait_for(lambda: running.processes("tasks.sft"))
    for process in running.processes(VICTIMS[victim]):
        process.send_signal(signal.SIGKILL)
    running.wait_for(lambda: not running.processes("tasks.sft"), 60)
    running.toy.wish({})
    assert first.wait(timeout=120) != 0
    running.wait_for(lambda: not running.processes(), 60)
    assert not (running.root / "runs/sft/0/model").exists()
    account = ACCOUNT[f"kill -9: {victim} of the flow"]
    account["tried"] += 1
    again = running.start()
    assert again.wait(timeout=200) == 0, running.said()[-3000:]
    assert set(running.states()) == {"CRASHED", "COMPLETED"}
    status = [sys.executable, "-m", "dvc", "status", "-q"]
    assert subprocess.run(status, cwd=running.root, env=running.env, check=False).returncode == 0
    account["resumed"] += 1
