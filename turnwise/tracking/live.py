"""A cell logged while it learns."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from turnwise.config import Params
from turnwise.tracking.store import Store, locked, said

log = logging.getLogger(__name__)


class LiveCell:
    """Logs a cell while it learns, into the run that `track` would find. Made by `live_cell`; use as a context manager.

    A worker thread does the logging, so that neither MLflow's import nor a busy database holds up training. A fault of
    MLflow's is a warning, never an error: `turnwise track` makes up for it.
    """

    def __init__(self, root: Path, params: Params, arm: str, seed: int):
        self._root, self._params, self._cell = root, params, (arm, seed)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mlflow")
        self._store: Store | None = None
        self._run, self._last = "", 0

    def __enter__(self) -> "LiveCell":
        self._submit(self._open)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        status = "FINISHED" if kind is None else "FAILED" if issubclass(kind, Exception) else "KILLED"
        self._submit(self._close, status)
        self._worker.shutdown()

    def log(self, update: int, metrics: Mapping[str, float | None], warnings: str | None = None) -> None:
        """Log an update, counted from 1: columns of the table `updates`, and `seconds_<phase>`. Returns at once.

        What `warnings` names becomes the run's tag `warnings`, with the update.

        Update 1 starts the run anew; of a resumed cell, updates that are there already are left out.
        """
        values = {name: value for name, value in metrics.items() if name != "update"}
        self._submit(self._log, update, values, warnings)

    def _submit(self, task: Callable[..., None], *arguments: Any) -> None:
        self._worker.submit(self._guarded, task, *arguments)

    def _guarded(self, task: Callable[..., None], *arguments: Any) -> None:
        try:
            task(*arguments)
        except Exception as error:
            fault = " ".join(str(error).split())[:200]
            log.warning("MLflow: %s; training goes on, `turnwise track` logs this cell afterwards", fault)

    def _open(self) -> None:
        with locked(self._root):
            store = Store(self._root, self._params)
            found = store.child(*self._cell)
            self._run = found.info.run_id if found else store.create_child(*self._cell)
        self._last = int(found.data.tags.get("last_update", 0)) if found else 0
        store.client.update_run(self._run, status="RUNNING")
        self._store = store

    def _log(self, update: int, values: dict[str, float], warnings: str | None) -> None:
        if self._store is None or self._last >= update > 1:
            return
        if update == 1 and self._last:
            with locked(self._root):
                self._run = self._store.create_child(*self._cell)
        self._store.log(self._run, {update: values})
        self._store.client.set_tag(self._run, "last_update", update)
        if warnings:
            self._store.client.set_tag(self._run, "warnings", said(update, warnings))
        self._last = update

    def _close(self, status: str) -> None:
        if self._store:
            self._store.client.set_terminated(self._run, status)


def live_cell(root: Path, params: Params, arm: str, seed: int) -> LiveCell:
    """Live logging of one cell: `with live_cell(root, params, arm, seed) as live: live.log(update, metrics)`."""
    return LiveCell(root, params, arm, seed)
