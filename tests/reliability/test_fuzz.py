"""Every file that the project reads, damaged: a clear error or the right answer, never a traceback or a wrong number."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from account import INPUTS
from fuzzing import LONG, as_json, damaged_bytes, damaged_values, refused_or_read

from turnwise.benchmarks import proactivevideoqa, streamingbench
from turnwise.benchmarks.ovo import accuracy, timing
from turnwise.benchmarks.predictions import read_predictions
from turnwise.benchmarks.store import PredictionFile
from turnwise.config import Stream, compose, read_params
from turnwise.episodes import read_demonstrations, read_episodes
from turnwise.errors import UserError
from turnwise.judging import Grade, RuleJudge, VerdictCache
from turnwise.judging.keeping import take_in
from turnwise.policy import load_policy
from turnwise.policy.adapters import load_adapter
from turnwise.protocols import NO_REPLY
from turnwise.tables import evidence_from, groups_from, query, read_table, trajectories_from
from turnwise.training.checkpoints import Checkpoint, latest_checkpoint, save_checkpoint

STREAM = Stream(frame_interval=2.0, frames_per_turn=1)


@pytest.fixture(params=[60, pytest.param(500, marks=pytest.mark.slow)], ids=["some", "many"])
def count(request: pytest.FixtureRequest) -> int:
    """Damaged files of a kind."""
    return request.param


def test_params(finished, tmp_path, count):
    whole = (finished / "params.yaml").read_bytes()
    for content in damaged_bytes(whole, count):
        refused_or_read(read_params, tmp_path / "params.yaml", content, INPUTS["params.yaml"])
    for value in damaged_values(yaml.safe_load(whole), count):
        refused_or_read(read_params, tmp_path / "params.yaml", as_json(value), INPUTS["params.yaml"])


def test_profiles(tmp_path, count):
    base = yaml.safe_dump(compose([]), sort_keys=False).encode()
    (tmp_path / "embedded.yaml").write_bytes(base)

    def read(path: Path) -> dict[str, Any]:
        return compose([path.stem], path.parent)

    for value in damaged_values(yaml.safe_load(base), count):
        refused_or_read(read, tmp_path / "other.yaml", as_json(value), INPUTS["profile"])
    refused_or_read(read, tmp_path / "other.yaml", LONG, INPUTS["profile"])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("rl.jsonl", read_episodes),
        ("captions.jsonl", read_demonstrations),
        ("demonstrations.jsonl", read_demonstrations),
    ],
)
def test_episodes(finished, tmp_path, count, name, read):
    lines = (finished / "data" / name).read_bytes().splitlines(keepends=True)[:4]
    path, counts, whole = tmp_path / name, INPUTS["episodes"], b"".join(lines)
    right = refused_or_read(read, path, whole, counts)
    for content in damaged_bytes(whole, count):
        found = refused_or_read(read, path, content, counts)
        if found and whole.startswith(content):
            assert found == right[: len(found)]
    for value in damaged_values(json.loads(lines[0]), count):
        for record in refused_or_read(read, path, as_json(value) + b"\n" + lines[1], counts) or []:
            clip = getattr(record, "episode", record).clip
            assert stays_inside(tmp_path, clip)


ANNOTATIONS = {
    "proactivevideoqa": (proactivevideoqa, "proactivevideoqa/WEB/anno.json"),
    "ovo_timing": (timing, "ovobench/ovo_bench_new.json"),
    "ovo_bench": (accuracy, "ovobench/ovo_bench_new.json"),
    "streamingbench real": (streamingbench, "streamingbench/questions_real.json"),
    "streamingbench proactive": (streamingbench, "streamingbench/questions_proactive.json"),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations(finished, tmp_path, count, name):
    module, place = ANNOTATIONS[name]
    whole = (finished / "data/benchmarks" / place).read_bytes()
    path, counts = tmp_path / place, INPUTS["annotations"]
    path.parent.mkdir(parents=True)

    def read(path: Path) -> list[Any]:
        items = module.load([path]).items
        for item in items:
            assert stays_inside(tmp_path, item.clip)
        return [episode_of(module, item) for item in items]

    assert len(refused_or_read(read, path, whole, counts)) == len(module.load([path]).items)
    for content in damaged_bytes(whole, count):
        found = refused_or_read(read, path, content, counts)
        assert found is None or content not in [whole[:at] for at in (len(whole) // 2, 10)]
    for value in damaged_values(json.loads(whole), count):
        refused_or_read(read, path, as_json(value), counts)


def stays_inside(folder: Path, clip: str) -> bool:
    """Whether a clip's path leads nowhere but into the folder; one with a zero byte leads nowhere at all."""
    return "\0" in clip or (folder / clip).resolve().is_relative_to(folder.resolve())


def episode_of(module: Any, item: Any) -> Any:
    """The item on the grid of a clip of 20 s; None where it does not fit there, which `prepare` refuses by name."""
    try:
        return module.episode(item, STREAM, 20.0)
    except ValueError:
        return None


def test_predictions(finished, tmp_path, count):
    items = proactivevideoqa.load([finished / "data/benchmarks/proactivevideoqa"]).items
    mine = [line for line in read_lines(finished / "runs/turnwise/0/eval/predictions.jsonl") if b"proactive" in line]
    whole, counts = b"".join(mine), INPUTS["predictions"]
    right = {item.key: said for item in items if (said := read_all(mine, items, tmp_path).get(item.key)) is not None}
    assert len(right) == len(items)

    def read(path: Path) -> dict[str, Any]:
        found = read_predictions([path], "proactivevideoqa", items)
        assert all(isinstance(fault, str) for fault in found.faults)
        return {} if found.faults else found.replies

    for content in damaged_bytes(whole, count):
        found = refused_or_read(read, tmp_path / "p.jsonl", content, counts)
        if found and whole.startswith(content):
            assert found.items() <= right.items()
    for value in damaged_values([json.loads(line) for line in mine], count):
        refused_or_read(read, tmp_path / "p.jsonl", b"".join(as_json(v) + b"\n" for v in value), counts)
        refused_or_read(gone_on_with, tmp_path / "p.jsonl", b"".join(as_json(v) + b"\n" for v in value), counts)


def read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def read_all(lines: list[bytes], items: Any, folder: Path) -> dict[str, Any]:
    (folder / "all.jsonl").write_bytes(b"".join(lines))
    return dict(read_predictions([folder / "all.jsonl"], "proactivevideoqa", items).replies)


def gone_on_with(path: Path) -> set[str]:
    with PredictionFile(path, "proactivevideoqa", {"a": 1}) as file:
        return file.done


TABLES: dict[str, Callable[[Any], Any]] = {
    "trajectories": trajectories_from,
    "evidence": evidence_from,
    "decisions": lambda table: groups_from(table, {"pauc": 1.0}),
    "updates": lambda table: table.to_pylist(),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_written_or_not_at_all(finished, tmp_path, count, name):
    whole = (finished / f"runs/turnwise/0/{name}.parquet").read_bytes()
    path, counts = tmp_path / f"{name}.parquet", INPUTS["parquet"]

    def read(path: Path) -> Any:
        table = read_table(name, path)
        TABLES[name](table)
        return table

    right = refused_or_read(read, path, whole, counts)
    for content in damaged_bytes(whole, count):
        found = refused_or_read(read, path, content, counts)
        assert found is None or found.equals(right), "a wrong number"


def test_checkpoints_are_read_as_written_or_passed_over(tmp_path, count, capsys):
    def checkpoint(update: int) -> Checkpoint:
        torch.manual_seed(update)
        return Checkpoint(update, {"w": torch.randn(4, 4)}, {"0.step": torch.tensor(3.0)}, {"alpha": update / 7})

    for update in (1, 2):
        save_checkpoint(tmp_path / "c", checkpoint(update), keep=2)
    counts = INPUTS["checkpoint"]
    for file in sorted((tmp_path / "c/update-00002").iterdir()):
        whole = file.read_bytes()
        for content in damaged_bytes(whole, count // 4):
            file.write_bytes(content)
            found = latest_checkpoint(tmp_path / "c")
            assert found.update == 1 or content == whole or file.name == "sha256.json"
            assert torch.equal(found.weights["w"], checkpoint(found.update).weights["w"])
            assert found.state == {"alpha": found.update / 7}
            counts["read"] += 1
            counts["refused"] += found.update == 1
        file.write_bytes(whole)
    assert "falling back" in capsys.readouterr().err


def test_verdicts(tmp_path, count):
    items = [Grade("level", "What is it?", "a red ball", f"a red thing {i}", 5) for i in range(40)]
    right = VerdictCache(tmp_path / "whole.sqlite").grade_all(RuleJudge(5), items)
    whole = (tmp_path / "whole.sqlite").read_bytes()

    def read(path: Path) -> Any:
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        return VerdictCache(path).grade_all(RuleJudge(5), items)

    for content in damaged_bytes(whole, count // 2):
        found = refused_or_read(read, tmp_path / "v.sqlite", content, INPUTS["verdicts.sqlite"])
        assert found is None or all(0 <= verdict.score <= 4 for verdict in found)
    assert refused_or_read(read, tmp_path / "v.sqlite", whole, INPUTS["verdicts.sqlite"]) == right


def test_verdicts_on_paper(tmp_path, count):
    line = {"judge": "rule", "item": {"kind": "level", "question": "?", "reference": "a", "reply": "b", "levels": 5}}
    cache = VerdictCache(tmp_path / "v.sqlite")
    for value in damaged_values({**line, "score": 1.0}, count):
        content = as_json(value) + b"\n"
        refused_or_read(lambda path: take_in(cache, path), tmp_path / "v.jsonl", content, INPUTS["verdicts on paper"])
    for content in damaged_bytes(as_json({**line, "score": 1.0}) + b"\n", count):
        refused_or_read(lambda path: take_in(cache, path), tmp_path / "v.jsonl", content, INPUTS["verdicts on paper"])


def test_catalogues(tmp_path):
    for content in (b"", LONG, b"SQLite format 3\x00" * 100):
        counts = INPUTS["catalogue"]
        assert refused_or_read(lambda path: query(path, "select 1"), tmp_path / "c.duckdb", content, counts) is None


@pytest.mark.parametrize("each", [2, pytest.param(25, marks=pytest.mark.slow)], ids=["some", "many"])
def test_model_folders(finished, tmp_path, each):
    params = read_params(finished / "params.yaml")
    folder = tmp_path / "model"
    shutil.copytree(finished / "runs/sft/0/model", folder)
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        for number, content in enumerate(damaged_bytes(whole, each, seed=len(whole))):
            if number in (0, 1) or number > 4:

                def read(path: Path) -> Any:
                    return load_policy(params.policy, NO_REPLY, path.parent, "cpu").model.state_dict().keys()

                refused_or_read(read, file, content, INPUTS["model folder"])
        file.write_bytes(whole)


@pytest.mark.parametrize("size", [0, 7, 8, 200, 40_000])
def test_cut_weights_are_refused(finished, tmp_path, size):
    params, folder = read_params(finished / "params.yaml"), tmp_path / "model"
    shutil.copytree(finished / "runs/sft/0/model", folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    with pytest.raises(UserError, match=r"a file of this model is missing or damaged .*; fetch it again"):
        load_policy(params.policy, NO_REPLY, folder, "cpu")


def test_pickled_weights_are_refused(finished, tmp_path):
    params, folder = read_params(finished / "params.yaml"), tmp_path / "model"
    shutil.copytree(finished / "runs/sft/0/model", folder)
    policy = load_policy(params.policy, NO_REPLY, folder, "cpu")
    torch.save(policy.model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no file named model\.safetensors"):
        load_policy(params.policy, NO_REPLY, folder, "cpu")


def test_a_pickled_adapter_is_refused(tmp_path):
    torch.save({}, tmp_path / "adapter_model.bin")
    with pytest.raises(FileNotFoundError, match=r"no adapter_model\.safetensors"):
        load_adapter(None, str(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_said_plainly(finished):
    params = read_params(finished / "params.yaml")
    with pytest.raises(UserError, match=r"runtime\.device: torch finds no CUDA device"):
        load_policy(params.policy, NO_REPLY, finished / "runs/sft/0/model", "cuda")
