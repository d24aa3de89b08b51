"""`turnwise track`: the runs made anew from what is on disk."""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.config import PARAMS, Params, read_yaml
from turnwise.errors import UserError
from turnwise.files import fingerprint, read_json
from turnwise.timings import Line, read_lines
from turnwise.tracking.notes import HEADLINES, NOTE, cell_note, parent_note
from turnwise.tracking.store import Steps, Store, locked, said


def track(root: Path, params: Params) -> int:
    """Rebuild the runs of `params` from `root`/runs, reports, timings and dvc.lock; how many there are, with the parent.

    A cell has a run once `updates.parquet` (`sft`: `eval/metrics.json`) is there, and if it is not `outdated`; without one
    nothing is recorded. Runs whose content did not change are left alone, others are replaced, so tracking twice is
    tracking once. Raises UserError for a damaged table or dvc.lock.
    """
    old = outdated(root, params)
    ready = [cell for cell in _finished(root, params) if cell not in old]
    if not ready:
        return 0
    hashes = _dvc_hashes(root)
    with locked(root):
        store = Store(root, params)
        parent = store.parent()
        for arm, seed in ready:
            _track_cell(store, arm, seed, hashes)
        _track_reports(store, parent)
    return 1 + len(ready)


def outdated(root: Path, params: Params) -> list[tuple[str, int]]:
    """The finished cells that dvc.lock knows from other parameters than those of `root`/params.yaml now."""
    file, stages = root / PARAMS, _locked_stages(root)
    present = read_yaml(file) if file.is_file() else {}

    def changed(stage: str) -> bool:
        ran = stages.get(stage, {}).get("params", {}).get(PARAMS.name, {})
        return any(_at(present, field) != value for field, value in ran.items())

    return [cell for cell in _finished(root, params) if any(map(changed, _stages_of(*cell)))]


def _stages_of(arm: str, seed: int) -> list[str]:
    """The stages that made a cell, in dvc.yaml's names."""
    shared = ["data", *(f"{stage}@{seed}" for stage in ("sft", "rollout", "judge", "sweep"))]
    own = [f"evaluate_sft@{seed}"] if arm == "sft" else [f"rl@{arm}-{seed}", f"evaluate@{arm}-{seed}"]
    return shared + own


def _at(values: Any, field: str) -> Any:
    """What stands at a dotted field of nested mappings; None where there is nothing."""
    for part in field.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _finished(root: Path, params: Params) -> list[tuple[str, int]]:
    cells = [(arm, seed) for arm in ("sft", *params.arms) for seed in params.seeds]
    return [cell for cell in cells if _done(root, *cell)]


def _done(root: Path, arm: str, seed: int) -> bool:
    return (root / "runs" / arm / str(seed) / ("eval/metrics.json" if arm == "sft" else "updates.parquet")).is_file()


def _track_cell(store: Store, arm: str, seed: int, hashes: Mapping[str, str]) -> None:
    steps, warnings = _measured(store.root, arm, seed)
    places = {"dvc.data": "data", "dvc.model": f"runs/{arm}/{seed}/model"}
    tags = {tag: hashes[place] for tag, place in places.items() if place in hashes}
    tags |= {"warnings": warnings} if warnings else {}
    tags[NOTE] = cell_note(store.params, arm, seed, steps[0])
    content = fingerprint([tags, {str(step): values for step, values in steps.items()}])
    found = store.child(arm, seed)
    if found and found.data.tags.get("content") == content:
        return
    run = store.create_child(arm, seed)
    store.log(run, steps)
    for tag, value in {**tags, "last_update": max(steps), "content": content}.items():
        store.client.set_tag(run, tag, value)
    store.client.set_terminated(run)


def _track_reports(store: Store, parent: str) -> None:
    reports = store.root / "reports"
    content = fingerprint("reports", reports) if reports.is_dir() else "none"
    run = store.client.get_run(parent)
    if run.data.tags.get("content") == content:
        return
    shutil.rmtree(store.root / "mlartifacts" / parent / "artifacts" / "reports", ignore_errors=True)
    store.client.log_dict(parent, store.params.model_dump(mode="json"), "params.yaml")
    if reports.is_dir():
        store.client.log_artifacts(parent, str(reports), "reports")
    store.client.set_tag(parent, NOTE, parent_note(store.params, reports / "ablation.csv"))
    store.client.set_tag(parent, "content", content)


def _measured(root: Path, arm: str, seed: int) -> tuple[Steps, str]:
    """Metrics of a cell by update, and its latest warnings."""
    steps: Steps = defaultdict(dict)
    told = ""
    folder = root / "runs" / arm / str(seed)
    for row in _rows(folder / "updates.parquet"):
        update, warnings = row.pop("update"), row.pop("warnings")
        steps[update] |= row
        told = said(update, warnings) if warnings else told
    scores = folder / "eval" / "metrics.json"
    if scores.is_file():
        metrics = read_json(scores, "run this evaluate stage again", *HEADLINES)
        steps[0] |= {name: metrics[name] for name in HEADLINES}
    for cell in (f"{arm}-{seed}", *([str(seed)] if arm == "sft" else [])):
        for path in sorted(root.glob(f"timings/*/{cell}.jsonl")):
            for line in read_lines(path):
                _add_times(steps, path.parent.name, line)
    return steps, told


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(path, partitioning=None).to_pylist() if path.is_file() else []
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a readable parquet file ({error}); delete it and run `dvc repro`") from None


def _add_times(steps: Steps, stage: str, times: Line) -> None:
    """Add a line of timings: of a whole stage, or of an update that `updates` has (not of an earlier, longer epoch)."""
    update = int(times.pop("update", 0))
    if update in steps and update:
        steps[update] |= {f"seconds_{phase}": seconds for phase, seconds in times.items()}
    elif not update:
        steps[0] |= {f"{name}_{stage}": times[name] for name in ("seconds", "peak_mb")}


def _dvc_hashes(root: Path) -> dict[str, str]:
    """Hash of each output that dvc.lock knows, by path."""
    stages = _locked_stages(root).values()
    return {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", []) if "md5" in out}


def _locked_stages(root: Path) -> dict[str, Any]:
    lock = root / "dvc.lock"
    stages = read_yaml(lock).get("stages") if lock.is_file() else {}
    if not (isinstance(stages, dict) and all(isinstance(stage, dict) for stage in stages.values())):
        raise UserError(
            f"{lock}: stages: must hold a mapping for each stage; take it from git, or `dvc repro` writes it"
        )
    return stages
