"""The ablation table as text: for a terminal, and in Markdown for a Prefect artifact or a note."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.analysis.ablation import METRICS


def number(value: float | None, *, signed: bool = False) -> str:
    """A percentage or difference with one decimal and a true minus sign; a dash of nothing."""
    if value is None:
        return "\N{EN DASH}"
    return f"{round(value, 1) + 0.0:{'+' if signed else ''}.1f}".replace("-", "\N{MINUS SIGN}")


def interval(entry: Mapping[str, Any], *, signed: bool = False) -> str:
    """` [low, high]`, or nothing where there is no interval."""
    if not entry["interval"]:
        return ""
    low, high = (number(bound, signed=signed) for bound in entry["interval"])
    return f" [{low}, {high}]"


def fewer(entry: Mapping[str, Any], seeds: int) -> str:
    """` (n = 2)` where only some of the seeds have a value or, for a difference, a pair; else nothing."""
    return f" (n = {entry['n']})" if 0 < entry["n"] < seeds else ""


def caption(table: Mapping[str, Any]) -> str:
    """What the numbers of the table are."""
    n, share = len(table["seeds"]), f"{table['confidence']:.0%}".replace("%", " %")
    spread = f"mean over n = {n} seeds [{share} t-interval of the mean]" if n > 1 else "one seed, so no interval"
    counts = "; ".join(f"{name} {said}" for name, said in scored_items(table).items())
    judges = f"Judge: {table['judge']}; of rewards: {table['training_judge']}"
    return f"Percent; {spread}. Scored of expected in a cell: {counts}. {judges}."


def scored_items(table: Mapping[str, Any]) -> dict[str, str]:
    """{what was counted: `54 of 54 turns`, a range where cells differ}."""
    rows = [row["scored"] for row in table["arms"].values()]
    return {name: _counted([cell for row in rows for cell in row[name]]) for name in rows[0]}


def _counted(cells: Sequence[Mapping[str, Any]]) -> str:
    scored, unit = _range([cell["scored"] for cell in cells]), cells[0]["unit"]
    expected = {cell["expected"] for cell in cells} - {None}
    return f"{scored} of {_range(sorted(expected))} {unit}" if expected else f"{scored} {unit}"


def _range(values: Sequence[int]) -> str:
    return f"{min(values)}" if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def _cells(table: Mapping[str, Any], arm: str) -> list[str]:
    entries = table["arms"][arm]["metrics"].values()
    return [number(entry["mean"]) + interval(entry) + fewer(entry, len(table["seeds"])) for entry in entries]


def _blind(table: Mapping[str, Any], name: str) -> list[str]:
    return [number(table["blind"][name].get(metric)) for metric in METRICS]


def _rows(table: Mapping[str, Any]) -> list[list[str]]:
    head = ["arm", *(f"{metric.label} {metric.arrow}" for metric in METRICS.values())]
    arms = [[arm, *_cells(table, arm)] for arm in table["arms"]]
    return [head, *arms, *([f"({name})", *_blind(table, name)] for name in table["blind"])]


def ablation_text(table: Mapping[str, Any]) -> str:
    """The table for a terminal: aligned columns, blind baselines in brackets, the caption below."""
    rows = _rows(table)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * len(widths) - 2), *lines[1:], "", caption(table), ""])


def ablation_markdown(table: Mapping[str, Any]) -> str:
    """The same table, and the paired differences to the reference arm, in Markdown."""
    parts = [_markdown(_rows(table))]
    if table["reference"]:
        arms = {arm: row["metrics"].values() for arm, row in table["arms"].items() if arm != table["reference"]}
        head = [f"minus {table['reference']}", *(metric.label for metric in METRICS.values())]
        changes = {arm: [entry["difference"] for entry in entries] for arm, entries in arms.items()}
        n = len(table["seeds"])
        body = [
            [arm, *(number(d["mean"], signed=True) + interval(d, signed=True) + fewer(d, n) for d in ds)]
            for arm, ds in changes.items()
        ]
        parts += ["Differences, paired by seed:", _markdown([head, *body])]
    return "\n\n".join([*parts, caption(table)]) + "\n"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
