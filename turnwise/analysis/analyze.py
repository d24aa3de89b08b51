"""The analyze stage: the numbers of an experiment as JSON and CSV, and its figures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from turnwise.analysis import figures
from turnwise.analysis.ablation import ablation, ablation_csv
from turnwise.analysis.cells import SFT, Cell, find_cells, main_arm, of_arm, values
from turnwise.analysis.redundancy import redundancy
from turnwise.analysis.sign_flips import sign_flips
from turnwise.config import Params
from turnwise.files import write_json, write_text

CURVE_COLUMNS = ("alpha", *figures.CURVES, "dev_repeat_share", "dev_reply_rate")


def analyze(root: Path, params: Params, out: Path) -> None:
    """Read the cells that `params` names below `root`/runs and write sign_flips.json, redundancy.json, ablation.json,
    ablation.csv, curves.csv and figures/*.svg below `out`. The same cells give the same bytes.

    Raises UserError naming the cells that are missing, or for cells scored by different judges.
    """
    cells, main = find_cells(root, params), main_arm(params)
    flips, repeats, table = sign_flips(cells, main), redundancy(cells, main), ablation(cells, params)
    write_json(out / "sign_flips.json", flips)
    write_json(out / "redundancy.json", repeats)
    write_json(out / "ablation.json", table)
    write_text(out / "ablation.csv", ablation_csv(table))
    learning = learning_curves(cells)
    write_text(out / "curves.csv", curves_csv(learning))
    decisions = pa.concat_tables([cell.table("decisions") for cell in of_arm(cells, main)])
    for name, size, plot in (
        (
            "advantages",
            (5.6, 5.0),
            figures.advantages(decisions, flips["arms"][main]["pooled"]["flip_share"]),
        ),
        ("redundancy", (5.6, 3.6), figures.repeats(repeats["arms"][main]["pooled"], repeats["published"])),
        ("curves", (10.5, 4.8), figures.curves(learning)),
        ("ablation", (10.5, 0.9 + 0.42 * len(table["arms"])), figures.ablation_dots(table)),
    ):
        figures.draw(out / "figures" / f"{name}.svg", size, plot)


def learning_curves(cells: Sequence[Cell]) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """[arm][seed][column], each [U] over updates; NaN where a quantity was not measured at an update."""
    table: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for cell in cells:
        if cell.arm != SFT:
            updates = cell.table("updates")
            curves = {"update": values(updates, "update"), **{c: values(updates, c, np.nan) for c in CURVE_COLUMNS}}
            table.setdefault(cell.arm, {})[cell.seed] = curves
    return table


def curves_csv(table: dict[str, dict[int, dict[str, np.ndarray]]]) -> str:
    """One line an update of each cell; an empty field where a quantity was not measured."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arm", "seed", "update", *CURVE_COLUMNS])
    for arm, seeds in table.items():
        for seed, curves in seeds.items():
            for row in zip(curves["update"].tolist(), *(_fields(curves[c]) for c in CURVE_COLUMNS), strict=True):
                writer.writerow([arm, seed, *row])
    return out.getvalue()


def _fields(column: np.ndarray) -> list[Any]:
    return ["" if np.isnan(value) else value for value in column.tolist()]
