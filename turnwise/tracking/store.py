"""The store: the experiment, its runs found by their tags, and the lock under which they are made."""

import fcntl
import math
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.config import Params
from turnwise.errors import UserError
from turnwise.files import fingerprint, replacing
from turnwise.tracking.notes import experiment_tags

if TYPE_CHECKING:
    from mlflow.entities import Run

EXPERIMENT = "turnwise"
Steps = dict[int, dict[str, float]]
"""Metrics by update; 0 holds what is measured once."""


class Store:
    """The runs of one configuration. Create, find and delete them only inside `locked`.

    Raises UserError for a database that MLflow cannot use.
    """

    def __init__(self, root: Path, params: Params):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # its faults are told in one line, by `_guarded`
        from mlflow import MlflowClient

        self.root, self.params = root.resolve(), params
        self.config = fingerprint(params.model_dump(mode="json"))
        database = self.root / "mlflow.db"
        if not database.exists():
            with replacing(database) as scratch:  # a database that a kill left half set up would be refused for good
                MlflowClient(f"sqlite:///{scratch}").search_experiments()
        try:
            self.client = MlflowClient(f"sqlite:///{database}")
            found = self.client.get_experiment_by_name(EXPERIMENT)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{database}: {reason}; move it away, and `turnwise track` records the runs anew") from None
        self.experiment = found.experiment_id if found else self._create_experiment()

    def _create_experiment(self) -> str:
        return self.client.create_experiment(EXPERIMENT, (self.root / "mlartifacts").as_uri(), experiment_tags())

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
def locked(root: Path) -> Iterator[None]:
    """One process at a time: MLflow sets up its database, and looks for a run before creating it, without a lock."""
    path = root / "state" / "mlflow.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def said(update: int, warnings: str) -> str:
    """The tag `warnings` of a cell."""
    return f"update {update}: {warnings}"


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "none"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
