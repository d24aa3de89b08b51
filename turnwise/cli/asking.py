"""`turnwise sql`: ask the tables of all cells."""

import csv
import json
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli.settings import printable
from turnwise.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


Rows = list[dict[str, Any]]


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
    docs/tables.md has every column and more queries. A query may also read files of your own, as in
    `from 'notes.csv'`; nothing can be written. JSON has null for NaN and infinity.

    Examples:

    - `turnwise sql "from ablation"`

    - `turnwise sql "select arm, avg(flipped::int) as flip_share from decisions group by arm order by arm"`

    - `turnwise sql "describe decisions"`

    - `turnwise sql --format csv "select * from updates where arm = 'turnwise'" > updates.csv`

    - `turnwise sql --format json --file question.sql`
    """
    from turnwise import tables

    found = tables.query(tables.CATALOGUE, _asked(query, file))
    try:
        rows = found.to_pylist()
    except (OverflowError, ValueError) as error:
        raise UserError(f"SQL: a date is beyond the years 1 to 9999 ({error}); cast it with `::varchar`") from None
    if form is Format.table:
        _print_table(found.schema, rows)
    elif form is Format.csv:
        _print_csv(found.column_names, rows)
    else:
        print(json.dumps(_finite(rows), indent=1, ensure_ascii=False, default=_plain, allow_nan=False))


def _asked(query: str | None, file: Path | None) -> str:
    if query is not None and file is None:
        return query
    if query is None and file is not None:
        return file.read_text(encoding="utf-8", errors="replace")
    raise UserError("sql: give a query or, with --file, a file that holds one; `turnwise sql --help` has examples")


def _print_table(schema: "pa.Schema", rows: Rows) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for column in schema:
        numeric = str(column.type).startswith(("int", "double", "decimal"))
        table.add_column(Text(column.name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "null" if value is None else printable(str(value))


def _print_csv(names: Sequence[str], rows: Rows) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(row.values() for row in rows)


def _finite(value: Any) -> Any:
    """The value with null in place of NaN and infinity, which JSON has not."""
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> float | str:
    return float(value) if isinstance(value, Decimal) else str(value)
