import json
import os
import subprocess
import sys

import pytest

from turnwise.errors import UserError
from turnwise.files import fingerprint, read_json, replacing, write_json, write_jsonl


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})

    def fail():
        with replacing(path) as scratch:
            scratch.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert json.loads(path.read_text()) == {"x": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_replaces_a_folder(tmp_path):
    for name in ("old", "new"):
        with replacing(tmp_path / "model") as scratch:
            scratch.mkdir()
            (scratch / name).touch()
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["new"]


def test_a_file_does_not_replace_a_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "keep.txt").write_text("kept")
    with pytest.raises(UserError, match="mine: is a folder; name a file in it"):
        write_json(tmp_path / "mine", 1)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "keep.txt"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file; make it anew"),
        ('{"x": 1', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("7", "holds 7 where an object belongs; make it anew"),
        ("{}", "x: is missing; make it anew"),
        ('[{"x": 1}, {"y": 1}]', "x: is missing"),
    ],
)
def test_json_that_lacks_what_is_asked_for_is_one_message(tmp_path, text, message):
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=f"a\\.json: {message}"):
        read_json(path, "make it anew", "x")


def test_what_a_killed_process_left_is_removed_and_a_living_ones_scratch_stays(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for pid in (dead.stdout.strip(), os.getppid()):
        (tmp_path / f".a.{pid}.part.json").touch()
    write_json(tmp_path / "a.json", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".a.{os.getppid()}.part.json", "a.json"]


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_jsonl(tmp_path / "a.jsonl", [{"x": float("nan")}])
    assert list(tmp_path.iterdir()) == []


def test_fingerprints_follow_values_names_and_bytes(tmp_path):
    (tmp_path / "a").write_text("1")
    first = fingerprint({"x": 1}, tmp_path)
    assert first == fingerprint({"x": 1}, tmp_path)
    assert first != fingerprint({"x": 2}, tmp_path)
    (tmp_path / "a").write_text("2")
    second = fingerprint({"x": 1}, tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, fingerprint({"x": 1}, tmp_path)}) == 3
