"""MLflow as a view of the experiment: a parent run for a configuration, a child for each cell. The only importer of mlflow.

The store is `mlflow.db` (SQLite) and `mlartifacts/` at the repository's root. Runs are found by their tags (the hash of the
whole configuration, arm, seed), so live logging, `turnwise track`, retries and resumed cells all meet in the same runs.
Metrics are the columns of the table `updates`, `seconds_<phase>` of each update, `seconds_<stage>` and `peak_mb_<stage>`, and
the four headline scores of `metrics.json`. MLflow takes seconds to import, so that happens inside functions.
"""

import fcntl
import json
import logging
import math
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.config import Params, read_yaml
from turnwise.errors import UserError
from turnwise.files import fingerprint, replacing

if TYPE_CHECKING:
    from mlflow.entities import Run

EXPERIMENT = "turnwise"
HEADLINES = ("pauc", "repetition", "timing_f1", "streamingbench")
Steps = dict[int, dict[str, float]]
"""Metrics by update; 0 holds what is measured once."""

log = logging.getLogger(__name__)


class _Store:
    """The runs of one configuration. Create, find and delete them only inside `_locked`."""

    def __init__(self, root: Path, params: Params):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        from mlflow import MlflowClient

        self.root, self.params = root.resolve(), params
        self.config = fingerprint(params.model_dump(mode="json"))
        database = self.root / "mlflow.db"
        if not database.exists():
            with replacing(database) as scratch:  # a database that a kill left half set up would be refused for good
                MlflowClient(f"sqlite:///{scratch}").search_experiments()
        self.client = MlflowClient(f"sqlite:///{database}")
        found = self.client.get_experiment_by_name(EXPERIMENT)
        place = (self.root / "mlartifacts").as_uri()
        self.experiment = found.experiment_id if found else self.client.create_experiment(EXPERIMENT, place)

    def find(self, **tags: str) -> "Run | None":
        wanted = " and ".join(f"tags.{tag} = '{value}'" for tag, value in {"config": self.config, **tags}.items())
        return next(iter(self.client.search_runs([self.experiment], wanted, max_results=1)), None)

    def parent(self) -> str:
        """Id of the parent run, created where there is none. It holds no work of its own, so it is always finished."""
        found = self.find(kind="ablation")
        if found:
            return found.info.run_id
        name = f"{' + '.join(self.params.profiles)} {self.config[:6]}"
        run = self._create(name, _flat(self.params.model_dump(mode="json")), kind="ablation")
        self.client.set_terminated(run)
        return run

    def child(self, arm: str, seed: int) -> "Run | None":
        return self.find(kind="cell", arm=arm, seed=str(seed))

    def create_child(self, arm: str, seed: int) -> str:
        """Id of a new run for the cell, in place of the one that there was."""
        before = self.child(arm, seed)
        if before:
            self.client.delete_run(before.info.run_id)
        shared = _flat(self.params.model_dump(mode="json", exclude={"arms", "seeds", "profiles"}))
        own = self.params.arms[arm].model_dump(mode="json") if arm in self.params.arms else {}
        values = {"arm": arm, "seed": seed, **{f"arm.{name}": value for name, value in own.items()}, **shared}
        tags = {"arm": arm, "seed": str(seed), "mlflow.parentRunId": self.parent()}
        return self._create(f"{arm}-{seed}", values, kind="cell", **tags)

    def _create(self, name: str, values: Mapping[str, Any], **tags: str) -> str:
        from mlflow.entities import Param

        tags |= {"config": self.config, "profile": "+".join(self.params.profiles), "git_commit": _commit(self.root)}
        run = self.client.create_run(self.experiment, tags=tags, run_name=name).info.run_id
        parameters = [Param(key, str(value)) for key, value in values.items()]
        for start in range(0, len(parameters), 100):
            self.client.log_batch(run, params=parameters[start : start + 100])
        return run

    def log(self, run: str, steps: Steps) -> None:
        """Log metrics of a run; what is None or not finite is left out."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        points = [
            Metric(name, float(value), now, step)
            for step, values in steps.items()
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        ]
        for start in range(0, len(points), 1000):
            self.client.log_batch(run, metrics=points[start : start + 1000])


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One process at a time: MLflow sets up its database, and looks for a run before creating it, without a lock."""
    path = root / "state" / "mlflow.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def track(root: Path, params: Params) -> int:
    """Rebuild the runs of `params` from `root`/runs, reports, timings and dvc.lock; how many there are, with the parent.

    A cell has a run once `updates.parquet` (`sft`: `eval/metrics.json`) is there. Runs whose content did not change are
    left alone, others are replaced, so tracking twice is tracking once. Raises UserError for a damaged table or dvc.lock.
    """
    hashes = _dvc_hashes(root)
    with _locked(root):
        store = _Store(root, params)
        parent = store.parent()
        cells = [(arm, seed) for arm in ("sft", *params.arms) for seed in params.seeds]
        ready = [cell for cell in cells if _done(root, *cell)]
        for arm, seed in ready:
            _track_cell(store, arm, seed, hashes)
        _track_reports(store, parent)
    return 1 + len(ready)


def _done(root: Path, arm: str, seed: int) -> bool:
    return (root / "runs" / arm / str(seed) / ("eval/metrics.json" if arm == "sft" else "updates.parquet")).is_file()


def _track_cell(store: _Store, arm: str, seed: int, hashes: Mapping[str, str]) -> None:
    steps = _measured(store.root, arm, seed)
    places = {"dvc.data": "data", "dvc.model": f"runs/{arm}/{seed}/model"}
    tags = {tag: hashes[place] for tag, place in places.items() if place in hashes}
    content = fingerprint([tags, {str(step): values for step, values in steps.items()}])
    found = store.child(arm, seed)
    if found and found.data.tags.get("content") == content:
        return
    run = store.create_child(arm, seed)
    store.log(run, steps)
    for tag, value in {**tags, "last_update": max(steps), "content": content}.items():
        store.client.set_tag(run, tag, value)
    store.client.set_terminated(run)


def _track_reports(store: _Store, parent: str) -> None:
    reports = store.root / "reports"
    content = fingerprint("reports", reports) if reports.is_dir() else "none"
    run = store.client.get_run(parent)
    if run.data.tags.get("content") == content:
        return
    shutil.rmtree(store.root / "mlartifacts" / parent / "artifacts" / "reports", ignore_errors=True)
    store.client.log_dict(parent, store.params.model_dump(mode="json"), "params.yaml")
    if reports.is_dir():
        store.client.log_artifacts(parent, str(reports), "reports")
    store.client.set_tag(parent, "content", content)


def _measured(root: Path, arm: str, seed: int) -> Steps:
    steps: Steps = defaultdict(dict)
    folder = root / "runs" / arm / str(seed)
    for row in _rows(folder / "updates.parquet"):
        steps[row.pop("update")] |= row
    scores = folder / "eval" / "metrics.json"
    if scores.is_file():
        metrics = json.loads(scores.read_text(encoding="utf-8"))
        steps[0] |= {name: metrics[name] for name in HEADLINES}
    for cell in (f"{arm}-{seed}", *([str(seed)] if arm == "sft" else [])):
        for path in sorted(root.glob(f"timings/*/{cell}.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                _add_times(steps, path.parent.name, json.loads(line))
    return steps


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(path, partitioning=None).to_pylist() if path.is_file() else []
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a readable parquet file ({error}); delete it and run `dvc repro`") from None


def _add_times(steps: Steps, stage: str, times: dict[str, float]) -> None:
    """Add a line of timings: of a whole stage, or of an update that `updates` has (not of an earlier, longer epoch)."""
    update = int(times.pop("update", 0))
    if update in steps and update:
        steps[update] |= {f"seconds_{phase}": seconds for phase, seconds in times.items()}
    elif not update:
        steps[0] |= {f"{name}_{stage}": times[name] for name in ("seconds", "peak_mb")}


def _dvc_hashes(root: Path) -> dict[str, str]:
    """Hash of each output that dvc.lock knows, by path."""
    lock = root / "dvc.lock"
    stages = read_yaml(lock)["stages"].values() if lock.is_file() else []
    return {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", []) if "md5" in out}


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "none"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


class LiveCell:
    """Logs a cell while it learns, into the run that `track` would find. Made by `live_cell`; use as a context manager.

    A worker thread does the logging, so that neither MLflow's import nor a busy database holds up training. A fault of
    MLflow's is a warning, never an error: `turnwise track` makes up for it.
    """

    def __init__(self, root: Path, params: Params, arm: str, seed: int):
        self._root, self._params, self._cell = root, params, (arm, seed)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mlflow")
        self._store: _Store | None = None
        self._run, self._last = "", 0

    def __enter__(self) -> "LiveCell":
        self._submit(self._open)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        status = "FINISHED" if kind is None else "FAILED" if issubclass(kind, Exception) else "KILLED"
        self._submit(self._close, status)
        self._worker.shutdown()

    def log(self, update: int, metrics: Mapping[str, float | None]) -> None:
        """Log an update, counted from 1: columns of the table `updates`, and `seconds_<phase>`. Returns at once.

        Update 1 starts the run anew; of a resumed cell, updates that are there already are left out.
        """
        self._submit(self._log, update, {name: value for name, value in metrics.items() if name != "update"})

    def _submit(self, task: Callable[..., None], *arguments: Any) -> None:
        self._worker.submit(self._guarded, task, *arguments)

    def _guarded(self, task: Callable[..., None], *arguments: Any) -> None:
        try:
            task(*arguments)
        except Exception as error:
            log.warning("MLflow: %s; training goes on, `turnwise track` logs this cell afterwards", error)

    def _open(self) -> None:
        with _locked(self._root):
            store = _Store(self._root, self._params)
            found = store.child(*self._cell)
            self._run = found.info.run_id if found else store.create_child(*self._cell)
        self._last = int(found.data.tags.get("last_update", 0)) if found else 0
        store.client.update_run(self._run, status="RUNNING")
        self._store = store

    def _log(self, update: int, values: dict[str, float]) -> None:
        if self._store is None or self._last >= update > 1:
            return
        if update == 1 and self._last:
            with _locked(self._root):
                self._run = self._store.create_child(*self._cell)
        self._store.log(self._run, {update: values})
        self._store.client.set_tag(self._run, "last_update", update)
        self._last = update

    def _close(self, status: str) -> None:
        if self._store:
            self._store.client.set_terminated(self._run, status)


def live_cell(root: Path, params: Params, arm: str, seed: int) -> LiveCell:
    """Live logging of one cell: `with live_cell(root, params, arm, seed) as live: live.log(update, metrics)`."""
    return LiveCell(root, params, arm, seed)
