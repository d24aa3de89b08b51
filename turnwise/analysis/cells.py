"""The cells an analysis reads: which there must be, and where their tables and scores lie."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from turnwise.config import Params
from turnwise.errors import UserError
from turnwise.tables import read_table

SFT = "sft"
Tally = dict[str, int]
METRICS_FILE = Path("eval") / "metrics.json"


@dataclass(frozen=True)
class Cell:
    """One arm with one seed, or the supervised start (`sft`) of a seed."""

    arm: str
    seed: int
    folder: Path

    def missing(self) -> list[str]:
        """Names of the files this cell lacks."""
        tables = ["decisions.parquet"] if self.arm == SFT else ["decisions.parquet", "updates.parquet"]
        return [name for name in [*tables, str(METRICS_FILE)] if not (self.folder / name).is_file()]

    def table(self, name: str) -> pa.Table:
        """The table `decisions` or `updates`."""
        return read_table(name, self.folder / f"{name}.parquet")


def find_cells(root: Path, params: Params) -> list[Cell]:
    """The cells that `params` names: `sft` first, then the arms in order, each with its seeds in order.

    Raises UserError naming every missing cell and file.
    """
    runs = Path(root) / "runs"
    cells = [Cell(arm, seed, runs / arm / str(seed)) for arm in (SFT, *params.arms) for seed in params.seeds]
    gaps = [f"{cell.arm}-{cell.seed} ({', '.join(cell.missing())})" for cell in cells if cell.missing()]
    if gaps:
        remedy = "`dvc repro` runs them, or take the arm or seed out of params.yaml"
        raise UserError(f"{runs}: {len(gaps)} of {len(cells)} cells are not finished: {'; '.join(gaps)}. {remedy}")
    return cells


def of_arm(cells: Sequence[Cell], arm: str) -> list[Cell]:
    """The cells of one arm, in order."""
    return [cell for cell in cells if cell.arm == arm]


def values(table: pa.Table, name: str, null: Any = None) -> NDArray[Any]:
    """A column as a numpy array [rows]; nulls become `null`, which a column that holds nulls needs."""
    column = table[name] if null is None else pc.fill_null(table[name], null)
    return np.asarray(column.to_numpy())


def main_arm(params: Params) -> str:
    """The arm that stands for TurnWise: turn credit at alpha 1 with turn-mean, else the last one listed."""
    for name, arm in params.arms.items():
        if (arm.credit, arm.alpha, arm.aggregation) == ("turnwise", 1.0, "turn-mean"):
            return name
    return list(params.arms)[-1]


def main_term(params: Params) -> str:
    """The term with the largest weight in the reward."""
    weights = params.reward.weights
    return max(weights, key=lambda term: weights[term])


def warnings_of(cell: Cell) -> list[dict[str, Any]]:
    """What has collapsed while a cell learned: the warnings, at how many updates, the first and the last of them."""
    updates = cell.table("updates")
    warned = updates.filter(pc.is_valid(updates["warnings"])).group_by("warnings", use_threads=False)
    rows = warned.aggregate([("update", "count"), ("update", "min"), ("update", "max")]).to_pylist()
    return [
        {
            "arm": cell.arm,
            "seed": cell.seed,
            "warnings": row["warnings"],
            "updates": row["update_count"],
            "first": row["update_min"],
            "last": row["update_max"],
        }
        for row in rows
    ]


def share(part: int, whole: int) -> float | None:
    """part / whole; None of nothing."""
    return part / whole if whole else None


def by_arm(
    cells: Iterable[Cell], count: Callable[[pa.Table], Tally], finish: Callable[[Tally], dict[str, Any]]
) -> dict[str, Any]:
    """{arm: {"pooled": ..., "seeds": {seed: ...}}}: each cell's decisions counted, the counts of an arm summed, finished."""
    tallies: dict[str, dict[str, Tally]] = {}
    for cell in cells:
        tallies.setdefault(cell.arm, {})[str(cell.seed)] = count(cell.table("decisions"))
    return {
        arm: {"pooled": finish(_sum(list(seeds.values()))), "seeds": {seed: finish(one) for seed, one in seeds.items()}}
        for arm, seeds in tallies.items()
    }


def _sum(tallies: Sequence[Tally]) -> Tally:
    return {name: sum(tally[name] for tally in tallies) for name in tallies[0]}
