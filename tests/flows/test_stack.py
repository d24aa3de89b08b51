"""Services that scripts/stack.py starts and stops, and the ports they want."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import stack  # noqa: E402


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for process ids and logs, with a service that only waits."""
    monkeypatch.setattr(stack, "HOME", tmp_path)
    monkeypatch.setattr(stack, "BIN", Path("/bin"))
    monkeypatch.setattr(stack, "SERVICES", {"server": ["sh", "-c", "echo up; sleep 300 & wait"]})
    return tmp_path


@pytest.fixture
def port() -> Iterator[str]:
    """A port that something else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield str(other.getsockname()[1])


def test_a_service_starts_once_and_stops_whole(home: Path) -> None:
    stack.start("server")
    process = stack.service("server")
    assert process is not None
    while not process.children():
        pass
    child = process.children()[0]
    stack.stop("server")
    assert not process.is_running()
    assert not child.is_running() or child.status() == "zombie"
    assert not stack.alive("server")
    assert not (home / "server.pid").exists()


def test_a_process_that_took_over_an_old_id_is_left_alone(home: Path) -> None:
    with subprocess.Popen(["sleep", "300"]) as other:
        (home / "server.pid").write_text(str(other.pid))
        stack.SERVICES["server"] = ["prefect", "server", "start"]
        stack.stop("server")
        assert other.poll() is None
        other.kill()


def test_a_taken_port_is_named_with_the_remedy(home: Path, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "PORT", port)
    with pytest.raises(SystemExit) as stopped:
        stack.start_server()
    assert port in str(stopped.value)
    assert "TURNWISE_PORT" in str(stopped.value)
    assert list(home.iterdir()) == []


def test_a_free_port_is_free() -> None:
    assert not stack.taken(stack.free_port())


def test_the_copy_has_the_tree_without_outputs(tmp_path: Path) -> None:
    stack.copy_tree(tmp_path / "copy")
    assert (tmp_path / "copy/dvc.yaml").read_bytes() == (ROOT / "dvc.yaml").read_bytes()
    for name in (".venv", ".prefect", "runs", "reports", "data", "dvc.lock", "mlflow.db"):
        assert not (tmp_path / "copy" / name).exists()
