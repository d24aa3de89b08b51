"""The analyze stage: the numbers of an experiment as JSON and CSV, and its figures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from turnwise.analysis import comparing, figures
from turnwise.analysis.ablation import ablation, ablation_csv
from turnwise.analysis.cells import SFT, Cell, find_cells, main_arm, main_term, of_arm, values
from turnwise.analysis.redundancy import redundancy
from turnwise.analysis.sign_flips import sign_flips
from turnwise.analysis.truth import against_truth
from turnwise.analysis.vega import draw
from turnwise.config import Arm, Params
from turnwise.files import replacing, write_json, write_text


def analyze(root: Path, params: Params, out: Path) -> None:
    """Read the cells that `params` names below `root`/runs and write sign_flips.json, redundancy.json, ablation.json,
    ablation.csv, curves.csv, truth.json and figures/ below `out`, each figure as a picture (*.svg) and as its Vega-Lite
    specification (*.vl.json). The same cells give the same bytes.

    Raises UserError naming the cells that are missing, or for cells scored by different judges.
    """
    cells, main, term = find_cells(root, params), main_arm(params), main_term(params)
    flips, repeats, table = sign_flips(cells, main), redundancy(cells, main), ablation(cells, params)
    write_json(out / "sign_flips.json", flips)
    write_json(out / "redundancy.json", repeats)
    write_json(out / "ablation.json", table)
    write_text(out / "ablation.csv", ablation_csv(table))
    truth = against_truth(params)
    write_json(out / "truth.json", truth)
    panels = comparing.titles(term)
    learning = learning_curves(cells, ["alpha", *panels, "dev_repeat_share", "dev_reply_rate"])
    write_text(out / "curves.csv", curves_csv(learning))
    decisions = pa.concat_tables([cell.table("decisions") for cell in of_arm(cells, main)])
    charts = {
        "advantages": figures.advantages(decisions, flips["arms"][main]["pooled"]["flip_share"]),
        "redundancy": figures.repeats(repeats["arms"][main]["pooled"], repeats["published"]),
        "curves": comparing.curves(learning, panels),
        "seeds": comparing.seeds(table),
        "truth": comparing.truth(truth),
    }
    if table["reference"] and len(params.arms) > 1:
        charts["differences"] = comparing.differences(table)
    if sweep := alpha_sweep(params):
        charts["alpha"] = comparing.alphas(table, sweep)
    with replacing(out / "figures") as scratch:
        for name, spec in charts.items():
            draw(spec, scratch / name)


def alpha_sweep(params: Params) -> dict[str, tuple[float, str]]:
    """Alpha and aggregation of each arm that differs in nothing else; empty unless one takes back a part (0 < alpha < 1)."""
    plain: dict[str, tuple[float, str]] = {
        name: (arm.alpha, arm.aggregation)
        for name, arm in params.arms.items()
        if arm.credit in ("grpo", "turnwise")
        and arm == Arm(credit=arm.credit, alpha=arm.alpha, aggregation=arm.aggregation)
    }
    return plain if any(0 < alpha < 1 for alpha, _ in plain.values()) else {}


def learning_curves(cells: Sequence[Cell], columns: Sequence[str]) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """[arm][seed][column], `update` and `columns`, each [U] over updates; NaN where a quantity was not measured."""
    table: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for cell in cells:
        if cell.arm != SFT:
            updates = cell.table("updates")
            curves = {"update": values(updates, "update"), **{c: values(updates, c, np.nan) for c in columns}}
            table.setdefault(cell.arm, {})[cell.seed] = curves
    return table


def curves_csv(table: dict[str, dict[int, dict[str, np.ndarray]]]) -> str:
    """One line an update of each cell; an empty field where a quantity was not measured."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = list(next(iter(next(iter(table.values())).values())))
    writer.writerow(["arm", "seed", *columns])
    for arm, seeds in table.items():
        for seed, curves in seeds.items():
            for row in zip(*(_fields(curves[column]) for column in columns), strict=True):
                writer.writerow([arm, seed, *row])
    return out.getvalue()


def _fields(column: np.ndarray) -> list[Any]:
    return ["" if np.isnan(value) else value for value in column.tolist()]
