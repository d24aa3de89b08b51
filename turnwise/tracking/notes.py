"""What MLflow's pages say of the experiment and of its runs, and the view that they open on."""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.config import Params

NOTE = "mlflow.note.content"
"""The tag that holds a description, in Markdown."""
HEADLINES = ("pauc", "repetition", "timing_f1", "streamingbench")
CURVES = ("reward", "dev_reward", "repeat_share", "flip_share")
ABOUT = """One run a cell (an arm with one seed; `sft` is the warm-up of all arms), below a parent for its configuration.

- **Compare arms**: search `tags.kind = "cell"`, choose runs, *Compare*. Arms have the same metrics at the same steps.
- **Step** is the update. What is measured once stands at step 0: the benchmarks' `pauc`, `repetition`, `timing_f1`, \
`streamingbench` in percent, seconds and memory of stages. docs/metrics.md says what each metric tells.
- **Tags**: `arm`, `seed`, `profile`, `git_commit`, DVC's hashes of data and trained model (`dvc.data`, `dvc.model`), \
`warnings` of a collapse.

The parent holds the report among its artifacts, `reports/index.html`."""
"""The experiment's description, in Markdown."""


def experiment_tags() -> dict[str, str]:
    """Tags of the experiment: what it is, and `arms`, a view of its runs.

    The view's keys are those that the UI of MLflow 3.17 saves when a view is shared. It opens with
    `#/experiments/1/runs?viewStateShareKey=arms`.
    """
    return {
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "pauc",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "True",
        "mlflow.sharedViewState.arms": json.dumps(_view()),
        NOTE: ABOUT,
    }


def _view() -> dict[str, Any]:
    """Cells grouped by arm: bars of the benchmarks' scores, learning curves, both as means over seeds."""
    lines = {"xAxisKey": "step", "xAxisScaleType": "linear", "scaleType": "linear", "lineSmoothness": 0}
    bars = [_chart("BAR", name) for name in HEADLINES]
    curves = [_chart("LINE", name, selectedMetricKeys=[name], range={}, **lines) for name in CURVES]
    return {
        "searchFilter": 'tags.kind = "cell"',
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "arm"}]},
        "groupsExpanded": {},
        "useGroupedValuesInCharts": True,
        "selectedColumns": [],
        "columnOrder": [],
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsHiddenMode": "FIRST_20_RUNS",
        "viewMaximized": False,
        "runListHidden": False,
        "isAccordionReordered": False,
        "hideEmptyCharts": True,
        "compareRunSections": [{"uuid": "arms", "name": "Arms", "display": True, "isReordered": False}],
        "compareRunCharts": bars + curves,
    }


def _chart(kind: str, metric: str, **more: Any) -> dict[str, Any]:
    place = {"uuid": metric, "metricSectionId": "arms", "deleted": False, "isGenerated": False}
    return {**place, "type": kind, "metricKey": metric, "runsCountToCompare": 20, **more}


def cell_note(params: Params, arm: str, seed: int, scores: Mapping[str, float | None]) -> str:
    """A cell's description, in Markdown: what its arm is, and its scores."""
    rule = params.arms.get(arm)
    said = [f"{name} `{value}`" for name, value in rule.model_dump(mode="json").items()] if rule else ["The warm-up."]
    row = [_number(scores.get(name)) for name in HEADLINES]
    return "\n\n".join([f"**{arm}**, seed {seed}.", ", ".join(said), "Percent:", _markdown([HEADLINES, row])])


def parent_note(params: Params, table: Path) -> str:
    """The parent's description, in Markdown: its arms and seeds, and the ablation table where there is one."""
    arms, seeds = ", ".join(f"`{arm}`" for arm in params.arms), ", ".join(map(str, params.seeds))
    said = [f"Profile {' + '.join(params.profiles)}: arms {arms}; seeds {seeds}."]
    if table.is_file():
        rows: dict[str, dict[str, str]] = defaultdict(dict)
        for line in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
            rows[line["arm"]][line["metric"]] = _number(float(line["mean"]) if line["mean"] else None)
        body = [[arm, *(row.get(name, "") for name in HEADLINES)] for arm, row in rows.items()]
        said += ["Mean over seeds, percent:", _markdown([["arm", *HEADLINES], *body])]
    return "\n\n".join([*said, "The report is among the artifacts: `reports/index.html`."])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
