"""`turnwise doctor` on folders that are well and folders that are not, with real ports, clips and DVC."""

import json
import shutil
import socket
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from typer.testing import CliRunner

from turnwise.cli import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A repository's root with nothing run in it, and two ports that nothing listens on."""
    for name in ("params.yaml", "requirements.lock", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / ".dvc", tmp_path / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for variable in ("TURNWISE_PORT", "TURNWISE_MLFLOW_PORT"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            monkeypatch.setenv(variable, str(probe.getsockname()[1]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(status, *words):
    result = CliRunner().invoke(app, ["doctor", *words])
    assert result.exit_code == status, result.output
    return result.output


def test_a_fresh_clone_is_well():
    said = ask(0)
    for line in (
        "✓ parameters: embedded",
        "✓ packages: all",
        "free for Prefect",
        "free for MLflow",
        "no data/rl.jsonl yet",
    ):
        assert line in said
    assert "✓ judge.train: rule-5, in this process" in said
    assert "stages are stale; `dvc repro` runs them" in said
    assert "✗" not in said


def test_each_fault_has_its_remedy(folder, monkeypatch):
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.replace("updates:", "updats:"))
    (folder / "requirements.lock").write_text("numpy==0.1\nno-such-package==1.0\n")
    (folder / "data").mkdir()
    (folder / "data" / "rl.jsonl").write_text("{}\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("TURNWISE_PORT", str(other.getsockname()[1]))
        said = ask(1)
    assert "✗ parameters: params.yaml: rl.updats" in said
    assert "no-such-package missing (locked 1.0)\n  → make setup" in said
    assert "taken by something that is not Prefect\n  → stop it, or set TURNWISE_PORT" in said
    assert "✗ data: data/rl.jsonl:1: " in said


def test_files_of_another_kind_are_told(folder):
    (folder / "params.yaml").unlink()
    (folder / "params.yaml").mkdir()
    (folder / "requirements.lock").write_bytes(b"# \xff\nno-such-package==1.0\n")
    said = ask(1)
    assert "✗ parameters: params.yaml: cannot be read: Is a directory\n  → " in said
    assert "✗ packages: no-such-package missing (locked 1.0)" in said


def test_ports_that_are_no_port_or_speak_another_protocol(monkeypatch):
    monkeypatch.setenv("TURNWISE_MLFLOW_PORT", "many")
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("TURNWISE_PORT", str(other.getsockname()[1]))
        Thread(
            target=lambda: [other.accept()[0].sendall(b"220 mail.example ready\r\n") for _ in range(2)], daemon=True
        ).start()
        said = ask(1)
    assert "taken by something that is not Prefect" in said
    assert "✗ TURNWISE_MLFLOW_PORT: 'many' is no port\n  → give a number from 1 to 65535" in said


def test_what_did_not_end_is_told(folder):
    checkpoint = folder / "state" / "rl" / "0123" / "update-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(bytes(1000))
    assert "· state: 1 stages did not end (0.0 GiB), state/rl/0123 among them\n  → `dvc repro` goes on" in ask(0)


def test_missing_clips_are_named(folder):
    episode = {"id": "e", "clip": "clips/gone.mp4", "task": "t", "grid": {"frame_interval": 2.0, "turns": 2}}
    elsewhere = folder / "streams"
    elsewhere.mkdir()
    (elsewhere / "rl.jsonl").write_text(json.dumps({**episode, "queries": [], "windows": []}) + "\n")
    assert "1 clips are missing, such as streams/clips/gone.mp4\n  → put them there" in ask(1, "--data", "streams")


def test_a_judge_is_asked_with_its_key_and_the_key_is_not_shown(folder, monkeypatch):
    keys = []

    class Models(BaseHTTPRequestHandler):
        def do_GET(self):
            keys.append(self.headers["Authorization"])
            self.send_response(200 if keys[-1] == "Bearer s3cret" else 401)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Models)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        values = yaml.safe_load((folder / "params.yaml").read_text())
        values["judge"]["train"] = {"kind": "openai", "levels": 5, "model": "m", "server": "s"}
        values["judge"]["servers"] = {"s": {"base_url": url, "key": "JUDGE_KEY"}}
        (folder / "params.yaml").write_text(yaml.safe_dump(values))
        assert "JUDGE_KEY is not set\n  → export JUDGE_KEY=" in ask(1)
        monkeypatch.setenv("JUDGE_KEY", "wrong")
        assert "/v1/models does not answer" in ask(1)
        monkeypatch.setenv("JUDGE_KEY", "s3cret")
        said = ask(0)
    finally:
        server.shutdown()
    assert f"✓ judge.train: m-5 at {url}" in said
    assert "s3cret" not in said
    assert keys == ["Bearer wrong", "Bearer s3cret"]


def test_a_folder_that_is_no_root(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    said = ask(1)
    assert "✗ parameters: params.yaml: no such file" in said
    assert "✗ DVC: no .dvc here\n  → run this in the repository's root" in said
