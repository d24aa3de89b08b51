"""How the results of `turnwise eval` are printed."""

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

COLUMNS = {
    "proactivevideoqa": ("video_mean", "repetition", "repetition_exact"),
    "ovo_timing": ("precision", "recall", "micro", "item_f1"),
    "ovo_bench": ("items", "strict"),
    "streamingbench": ("robust", "time", "answer"),
}
"""What is shown beside the score, where there is such a number."""


def print_result(module: ModuleType, result: Mapping[str, Any]) -> None:
    """The scores of each subset and of all, then the blind rows on the same items, then what was left open."""
    columns = COLUMNS[module.NAME]
    head = ["", "score", "95 % interval", *columns, "scored", "unparsable", "replies"]
    parts = [(name, result["subsets"][name]) for name in module.SUBSETS if result["subsets"][name]["expected"]]
    categories = [(name, part | {"interval": None}) for name, part in result.get("categories", {}).items()]
    print_table(head, [_row(name, part, columns) for name, part in [*parts, *categories, ("all", result)]])
    here = {"score": result["score"]} | {name: part["score"] for name, part in result["subsets"].items()}
    print_blind(module, {"these predictions": here, **result["blind"]})
    print(f"{result['scored']} of {result['expected']} {result['unit']} scored" + (": PARTIAL" * result["partial"]))
    told = result["protocol"]["scoring"].items()
    print("; ".join(f"{name}: {value}" for name, value in told))
    if result["score"] is None:
        print(f"no headline: it is a mean over {', '.join(module.SUBSETS)}, and some have nothing scored")


def _row(name: str, part: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    edges = part["interval"]
    between = f"{edges[0]:.2f} to {edges[1]:.2f}" if edges else ""
    scored = f"{part['scored']}/{part['expected']}" if "scored" in part else ""
    counts = [str(part.get(count, "")) for count in ("unparsable", "replies")]
    return [
        name,
        _percent(part["score"]),
        between,
        *(_percent(part.get(column)) for column in columns),
        scored,
        *counts,
    ]


def print_blind(module: ModuleType, rows: Mapping[str, Mapping[str, float | None]]) -> None:
    """Scores of blind rows: the headline and each subset's."""
    shown = [name for name in module.SUBSETS if any(row[name] is not None for row in rows.values())]
    table = [[name, *(_percent(row[column]) for column in ("score", *shown))] for name, row in rows.items()]
    print_table(["blind", "score", *shown], table)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose first column is a name, and whose others are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for number, name in enumerate(head):
        table.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)
