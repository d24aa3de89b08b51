"""The ablation table: each metric's mean over seeds with a paired difference to GRPO, and every seed's own value.

Intervals are Student's t over seeds (95 %). With one seed there is none. Nothing is resampled: a bootstrap of three
seeds knows only ten different samples, and its intervals are far too narrow.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from turnwise.analysis.cells import METRICS_FILE, SFT, Cell, of_arm
from turnwise.analysis.published import SOURCE, published
from turnwise.config import Params
from turnwise.errors import UserError
from turnwise.files import read_json

CONFIDENCE = 0.95
REFERENCE = "grpo"


@dataclass(frozen=True)
class Metric:
    """How a headline number (percent) is named and read, and which benchmark it comes from."""

    label: str
    arrow: str
    benchmark: str

    @property
    def better(self) -> int:
        """+1 where more is better, else -1."""
        return 1 if self.arrow == "↑" else -1


METRICS = {
    "pauc": Metric("PAUC", "↑", "proactivevideoqa"),
    "repetition": Metric("Repeat rate", "↓", "proactivevideoqa"),
    "timing_f1": Metric("Timing F1", "↑", "ovo_timing"),
    "streamingbench": Metric("StreamingBench", "↑", "streamingbench"),
}


def mean_interval(values: Sequence[float]) -> dict[str, Any]:
    """Mean of n values and the t-interval of the mean, mean ± t(0.975, n - 1) · sd / √n; None of one value or none."""
    n = len(values)
    if n == 0:
        return {"mean": None, "n": 0, "interval": None}
    mean = float(np.mean(values))
    if n == 1:
        return {"mean": mean, "n": 1, "interval": None}
    half = float(student.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return {"mean": mean, "n": n, "interval": [mean - half, mean + half]}


def paired_difference(values: Mapping[str, float | None], reference: Mapping[str, float | None]) -> dict[str, Any]:
    """Mean and t-interval of the differences to the reference, seed by seed; seeds that lack a value are left out."""
    pairs = [(values[seed], reference[seed]) for seed in values]
    return mean_interval([ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None])


def ablation(cells: Sequence[Cell], params: Params) -> dict[str, Any]:
    """The content of ablation.json. Values are percent, 0..100. Raises UserError for damaged scores, and where cells had
    different judges.
    """
    fields = (*METRICS, "benchmarks", "blind", "judge", "protocol")
    scores = {cell: read_json(cell.folder / METRICS_FILE, "run this evaluate stage again", *fields) for cell in cells}
    first = next(iter(scores.values()))
    judges = sorted({score["judge"] for score in scores.values()})
    if len(judges) > 1:
        raise UserError(f"runs/*/*/eval/metrics.json: judge: cells were scored by {judges}; evaluate them all again")
    reference = REFERENCE if REFERENCE in params.arms else None
    arms = [SFT, *params.arms]
    seen = {arm: {m: {str(c.seed): scores[c][m] for c in of_arm(cells, arm)} for m in METRICS} for arm in arms}
    rows = {
        arm: {
            "metrics": {name: _entry(name, arm, seen, reference, params) for name in METRICS},
            "scored": _scored([scores[c]["benchmarks"] for c in of_arm(cells, arm)]),
        }
        for arm in arms
    }
    return {
        "seeds": list(params.seeds),
        "confidence": CONFIDENCE,
        "reference": reference,
        "judge": first["judge"],
        "training_judge": params.judge.train.name,
        "protocol": first["protocol"],
        "published_source": SOURCE,
        "blind": first["blind"],
        "arms": rows,
    }


def _entry(name: str, arm: str, seen: Any, reference: str | None, params: Params) -> dict[str, Any]:
    seeds = seen[arm][name]
    entry = mean_interval([value for value in seeds.values() if value is not None])
    compared = reference is not None and arm != reference
    difference = paired_difference(seeds, seen[reference][name]) if compared else None
    paper = published(params.arms.get(arm))[name]
    return {**entry, "difference": difference, "seeds": seeds, "published": paper}


def _scored(cells: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """How many were scored of how many expected, cell by cell; the repeat rate counts replies and expects none."""
    counts = {
        name: [{count: cell[name][count] for count in ("scored", "expected", "unit")} for cell in cells]
        for name in cells[0]
    }
    repeats = [
        {"scored": cell["proactivevideoqa"]["repetition_of"], "expected": None, "unit": "replies"} for cell in cells
    ]
    return {**counts, "repeat rate": repeats}


def ablation_csv(table: Mapping[str, Any]) -> str:
    """One line an arm and metric: mean, interval, paired difference with its interval, published, each seed's value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["arm", "metric", "n", "mean", "low", "high", "difference", "difference_low", "difference_high", "published"]
    writer.writerow([*head, *(f"seed_{seed}" for seed in table["seeds"])])
    for arm, row in table["arms"].items():
        for name, entry in row["metrics"].items():
            difference = entry["difference"] or {"mean": None, "interval": None}
            bounds = [
                *(entry["interval"] or (None, None)),
                difference["mean"],
                *(difference["interval"] or (None, None)),
            ]
            line = [arm, name, entry["n"], entry["mean"], *bounds, entry["published"], *entry["seeds"].values()]
            writer.writerow(line)
    return out.getvalue()
