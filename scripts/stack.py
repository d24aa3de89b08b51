"""Start, use and stop what the ablation runs on: `python scripts/stack.py ablation|smoke|up|down` (see the Makefile).

Everything listens on 127.0.0.1 and keeps its state, logs and process ids in .prefect/.
TURNWISE_PORT moves the Prefect server, TURNWISE_MLFLOW_PORT the MLflow UI.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from turnwise.cli.settings import is_port

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".prefect"
POOL = "turnwise-local"
PORT = os.environ.get("TURNWISE_PORT", "4200")
MLFLOW_PORT = os.environ.get("TURNWISE_MLFLOW_PORT", "5000")
API = f"http://127.0.0.1:{PORT}/api"
ARMS = "#/experiments/1/runs?workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey=arms"
"""Where MLflow's UI shows the arms side by side; by itself it opens on a page for traces."""
BIN = Path(sys.executable).parent
ENV = {
    **os.environ,
    "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    "PREFECT_HOME": str(HOME),
    "PREFECT_API_URL": API,
    "PREFECT_SERVER_API_HOST": "127.0.0.1",
    "PREFECT_SERVER_API_PORT": PORT,
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
SERVICES = {
    "server": ["prefect", "--no-prompt", "server", "start"],
    "worker": ["prefect", "--no-prompt", "worker", "start", "--pool", POOL, "--type", "process"],
    "mlflow": f"mlflow ui --backend-store-uri sqlite:///mlflow.db --host 127.0.0.1 --port {MLFLOW_PORT} --workers 1".split(),
}


def main() -> None:
    """Do what the command line's one word says."""
    commands = {"ablation": ablation, "smoke": smoke, "up": up, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python scripts/stack.py {'|'.join(commands)}")
    for name, port in (("TURNWISE_PORT", PORT), ("TURNWISE_MLFLOW_PORT", MLFLOW_PORT)):
        if not is_port(port):
            sys.exit(f"error: {name}: {port!r} is no port; give a number from 1 to 65535")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(ROOT)
    try:
        commands[sys.argv[1]]()
    except KeyboardInterrupt:
        sys.exit("interrupted; every finished stage is kept")


def ablation() -> None:
    """Run the deployment to its end in the foreground and print what came of it; exits with 1 where the run failed."""
    from turnwise.config import read_params
    from turnwise.errors import UserError

    try:
        read_params()
    except UserError as error:
        sys.exit(f"error: {error}")
    with server(), answering():
        deploy()
        bury_the_dead(wait=0)
        run = start_run()
        if alive("worker"):
            watch(run)
        else:
            work()
            bury_the_dead(wait=30)
        state = get(f"/flow_runs/{run}")["state"]
    if state["type"] != "COMPLETED":
        sys.exit(f"\nablation: {state['name']}: {state['message']}\nRun it again to go on from what is finished.")
    show(state["message"])


def show(message: str) -> None:
    """Print the ablation table and where the rest is."""
    from turnwise.analysis import ablation_text

    print(f"\nablation: Completed: {message}\n")
    print(ablation_text(json.loads(Path("reports/ablation.json").read_text(encoding="utf-8"))))
    print("report:        reports/index.html")
    print('tables:        turnwise.duckdb (turnwise sql "from ablation")')
    print(f"MLflow UI:     make up (or {' '.join(SERVICES['mlflow'])}), then http://127.0.0.1:{MLFLOW_PORT}/{ARMS}")


def smoke() -> None:
    """The same in a scratch copy of the working tree with the profile `smoke`, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="turnwise-smoke-") as folder:
        scratch = Path(folder) / "turnwise"
        copy_tree(scratch)
        env = {**ENV, "PYTHONPATH": str(scratch), "DVC_SITE_CACHE_DIR": f"{folder}/site", "TURNWISE_PORT": free_port()}
        for command in (
            [str(BIN / "turnwise"), "profile", "use", "smoke"],
            [sys.executable, "scripts/stack.py", "ablation"],
        ):
            status = subprocess.run(command, cwd=scratch, env=env, check=False).returncode
            if status:
                sys.exit(status)
    print(
        "smoke: passed. So little training teaches nothing: the numbers mean nothing. The scratch copy is removed, and with\n"
        "it the report and the tables named above; `make ablation` makes them here."
    )


def copy_tree(target: Path) -> None:
    """Copy what git tracks or would track, uncommitted work too, without outputs, into a new git repository."""
    listing = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("runs/", "reports/", "dvc.lock")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)


def up() -> None:
    """Start server, worker and MLflow UI, each unless it runs, and record the deployment."""
    if not alive("mlflow") and taken(MLFLOW_PORT):
        sys.exit(f"error: port {MLFLOW_PORT} is taken; stop what listens there or set TURNWISE_MLFLOW_PORT")
    if not ours():
        start_server()
    deploy()
    for name in ("worker", "mlflow"):
        if not alive(name):
            start(name)
    wait_for_mlflow()
    print(f"Prefect: http://127.0.0.1:{PORT}   (make down stops both)\nMLflow:  http://127.0.0.1:{MLFLOW_PORT}/{ARMS}")
    elsewhere = f"PREFECT_API_URL={API} " if PORT != "4200" else ""
    print(f"run:     {elsewhere}.venv/bin/prefect deployment run turnwise/full-ablation")


def down() -> None:
    """Stop what `up` started."""
    for name in reversed(SERVICES):
        stop(name)


@contextmanager
def server() -> Iterator[None]:
    """A Prefect server for the block: ours if it runs, else one that ends with the block."""
    if ours():
        yield
        return
    start_server()
    try:
        yield
    finally:
        stop("server")


def start_server() -> None:
    """Start the server and wait until it answers."""
    if taken(PORT):
        sys.exit(
            f"error: port {PORT} is taken, and not by this project's Prefect server; stop what listens there "
            "or choose another port: TURNWISE_PORT=4300 make ..."
        )
    start("server")
    for _ in range(240):
        if ours():
            return
        if not alive("server"):
            break
        time.sleep(0.5)
    stop("server")
    sys.exit(f"error: the Prefect server did not start; {HOME / 'server.log'} says why")


def wait_for_mlflow() -> None:
    """Wait until MLflow's UI answers."""
    for _ in range(240):
        if not alive("mlflow"):
            sys.exit(f"error: the MLflow UI did not start; {HOME / 'mlflow.log'} says why")
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{MLFLOW_PORT}/health", timeout=5):
            return
        time.sleep(0.5)
    sys.exit(f"error: the MLflow UI does not answer on port {MLFLOW_PORT}; {HOME / 'mlflow.log'} says why")


def deploy() -> None:
    """Create the work pool and record the deployment of prefect.yaml."""
    for words in (["work-pool", "create", POOL, "--type", "process", "--overwrite"], ["deploy", "--all"]):
        done = subprocess.run(
            prefect(*words), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"error: prefect {' '.join(words)}:\n{done.stdout}")


def start_run() -> str:
    """Ask for a run of the deployment; returns its id."""
    print("+ prefect deployment run turnwise/full-ablation", flush=True)
    asked = subprocess.run(
        prefect("deployment", "run", "turnwise/full-ablation"), env=ENV, stdout=subprocess.PIPE, text=True, check=True
    )
    found = re.search(r"UUID: ([0-9a-f-]{36})", asked.stdout)
    if not found:
        sys.exit(f"error: prefect deployment run said:\n{asked.stdout}")
    return found[1]


def work() -> None:
    """A worker for one run. It ends with the server, and its run with it: that could report nothing any more."""
    with subprocess.Popen(prefect(*SERVICES["worker"][2:], "--run-once"), env=ENV) as worker:
        try:
            while worker.poll() is None and alive("server"):
                time.sleep(0.5)
        finally:
            worker.kill()


@contextmanager
def answering() -> Iterator[None]:
    """Say plainly where the server dies under the block."""
    try:
        yield
    except urllib.error.URLError as error:
        sys.exit(f"\nerror: the Prefect server is gone ({error.reason}). Run it again to go on from what is finished.")


def bury_the_dead(wait: int) -> None:
    """Say of runs whose process, or whose server, was killed that they crashed: nobody else is left to say so.

    A run at work is left alone; it has `wait` seconds to end.
    """
    HOME.mkdir(exist_ok=True)
    with (HOME / "flow.lock").open("a") as place:
        for _ in range(2 * wait + 1):
            with suppress(BlockingIOError):
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.5)
        else:
            return  # one is at work
        unfinished = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "CANCELLING"]}}}}
        crashed = {"type": "CRASHED", "name": "Crashed", "message": "its process died without a word"}
        for run in post("/flow_runs/filter", unfinished):
            post(f"/flow_runs/{run['id']}/set_state", {"state": crashed, "force": True})


def watch(run: str) -> None:
    """Wait for a run that a worker of `up` executes, showing the worker's log."""
    tail = subprocess.Popen(["tail", "-n", "0", "-F", str(HOME / "worker.log")], stderr=subprocess.DEVNULL)
    try:
        while get(f"/flow_runs/{run}")["state"]["type"] not in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            time.sleep(2)
    finally:
        tail.terminate()


def prefect(*words: str) -> list[str]:
    """A command of this environment's prefect."""
    return [str(BIN / "prefect"), "--no-prompt", *words]


def get(path: str) -> Any:
    """What the API answers."""
    with urllib.request.urlopen(API + path, timeout=10) as answer:
        return json.load(answer)


def post(path: str, body: Any) -> Any:
    """What the API answers to a body."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(API + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def ours() -> bool:
    """Whether this folder's server answers at the port."""
    with suppress(OSError, ValueError):
        return get("/admin/settings")["home"] == str(HOME)
    return False


def taken(port: str) -> bool:
    """Whether anything listens on 127.0.0.1 at the port."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def free_port() -> str:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(name: str) -> None:
    """Start a service in its own session, with its log and process id in .prefect/."""
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{name}.log").open("ab") as log:
        command = [str(BIN / SERVICES[name][0]), *SERVICES[name][1:]]
        process = subprocess.Popen(
            command, env=ENV, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (HOME / f"{name}.pid").write_text(f"{process.pid}\n", encoding="utf-8")


def service(name: str) -> psutil.Process | None:
    """The running process of a service that `start` started here."""
    with suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int((HOME / f"{name}.pid").read_text(encoding="utf-8")))
        if SERVICES[name][0] in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def alive(name: str) -> bool:
    """Whether a service that `start` started here runs."""
    return service(name) is not None


def stop(name: str) -> None:
    """End a service with its process group: ask, wait, then make it."""
    process = service(name)
    if process:
        group = process.pid
        os.killpg(group, signal.SIGTERM)
        with suppress(psutil.TimeoutExpired):
            process.wait(timeout=15)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        print(f"stopped: {name}")
    (HOME / f"{name}.pid").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
