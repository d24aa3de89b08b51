"""`turnwise sql`: ask the tables of all cells."""

import csv
import json
import sys
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

CATALOGUE = Path("turnwise.duckdb")


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="One SQL query over the views of `turnwise.duckdb`, in DuckDB's dialect.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Read the query from a file.", exists=True, dir_okay=False, show_default=False
        ),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="For people, for spreadsheets, for programs.")
    ] = Format.table,
) -> None:
    """Ask the tables of all cells.

    Tables: `decisions`, `updates`, `samples`, `evidence`, `trajectories`, `cells`.
    Views: `sign_flips`, `redundancy`, `mixed_trajectories`, `credit_by_turn`, `ablation`.
    docs/tables.md has every column and more queries.

    Examples:

    - `turnwise sql "from ablation"`

    - `turnwise sql "select arm, avg(flipped::int) as flip_share from decisions group by arm order by arm"`

    - `turnwise sql "describe decisions"`

    - `turnwise sql --format csv "select * from updates where arm = 'turnwise'" > updates.csv`

    - `turnwise sql --format json --file question.sql`
    """
    from turnwise import tables

    rows = tables.query(CATALOGUE, _asked(query, file))
    {Format.table: _print_table, Format.csv: _print_csv, Format.json: _print_json}[form](rows)


def _asked(query: str | None, file: Path | None) -> str:
    if query is not None and file is None:
        return query
    if query is None and file is not None:
        return file.read_text(encoding="utf-8", errors="replace")
    raise UserError("sql: give a query or, with --file, a file that holds one; `turnwise sql --help` has examples")


def _print_table(rows: "pa.Table") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for column in rows.schema:
        numeric = str(column.type).startswith(("int", "double", "decimal"))
        table.add_column(Text(column.name), justify="right" if numeric else "left", overflow="fold")
    for row in rows.to_pylist():
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "null" if value is None else str(value)


def _print_csv(rows: "pa.Table") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(row.values() for row in rows.to_pylist())


def _print_json(rows: "pa.Table") -> None:
    print(json.dumps(rows.to_pylist(), indent=1, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> float | str:
    return float(value) if isinstance(value, Decimal) else str(value)
