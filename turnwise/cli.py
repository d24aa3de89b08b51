"""The `turnwise` command: choose an experiment, ask its tables, rebuild its views. Heavy modules load inside the commands."""

import csv
import json
import sys
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import turnwise
from turnwise.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

CATALOGUE, REPORTS = Path("turnwise.duckdb"), Path("reports")
SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False}

app = typer.Typer(
    add_completion=False,
    help="Turn-level credit for reinforcement learning of streaming-video models. Run it in the repository's root.",
    **SETTINGS,
)
profile = typer.Typer(help="Choose the experiment that `params.yaml` describes.", **SETTINGS)
app.add_typer(profile, name="profile")


def main() -> None:
    """Run the command line. A UserError becomes one message on standard error and exit status 2."""
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(turnwise.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Profiles, laid over `embedded`; the later one wins.")
]


@profile.command("use")
def use(names: Names) -> None:
    """Write `params.yaml` from profiles, over whatever it held.

    Examples:

    - `turnwise profile use embedded` the complete default

    - `turnwise profile use embedded smoke` the same, small
    """
    from turnwise.config import PARAMS, compose
    from turnwise.files import write_text

    values = compose(names)
    write_text(PARAMS, params_yaml(values))
    arms, seeds = ", ".join(values["arms"]), ", ".join(map(str, values["seeds"]))
    print(f"{PARAMS}: {' + '.join(values['profiles'])} (arms {arms}; seeds {seeds}); `dvc repro` runs it")


@profile.command("list")
def list_profiles() -> None:
    """List the profiles there are, each with the first line that it says of itself."""
    paths = sorted(Path("profiles").glob("*.yaml"), key=lambda path: path.stem)
    if not paths:
        raise UserError("profiles: no profile here; run this in the repository's root")
    for path in paths:
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        print(f"{path.stem:<18}{first.removeprefix('#').strip() if first.startswith('#') else ''}".rstrip())


@profile.command("show")
def show(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None) -> None:
    """Show what profiles would write; without a name, what `params.yaml` is made of and what was edited since.

    Examples:

    - `turnwise profile show` where the present parameters come from

    - `turnwise profile show smoke` what `turnwise profile use smoke` would write
    """
    from turnwise.config import PARAMS, compose, read_yaml, validate

    if names:
        print(params_yaml(compose(names)), end="")
        return
    present = read_yaml(PARAMS)
    source = validate(present, PARAMS).profiles
    print(f"{PARAMS}: {' + '.join(source)}")
    for field, (before, after) in _differences(compose(list(source)), present).items():
        print(f"  {field}: {_flow(before)} -> {_flow(after)}")


def _differences(before: Any, after: Any, field: str = "") -> dict[str, tuple[Any, Any]]:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return {} if before == after else {field: (before, after)}
    changed: dict[str, tuple[Any, Any]] = {}
    for key in before | after:
        changed |= _differences(before.get(key), after.get(key), f"{field}.{key}" if field else key)
    return changed


def params_yaml(values: dict[str, Any]) -> str:
    """`params.yaml` as text: a header, then a section a key with one field, or one arm, a line."""
    lines = [
        f"# Written by `turnwise profile use {' '.join(values['profiles'])}`; edit it freely.",
        "# `turnwise profile show` tells what was edited. Every field is described in turnwise/config.py.",
    ]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {_flow({name: field})[1:-1]}" for name, field in value.items())]
        else:
            lines.append(_flow({key: value})[1:-1])
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").strip()


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(help="One SQL query over the views of `turnwise.duckdb`, in DuckDB's dialect.")
    ],
    form: Annotated[
        Format, typer.Option("--format", help="For people, for spreadsheets, for programs.")
    ] = Format.table,
) -> None:
    """Ask the tables of all cells: `decisions`, `updates`, `samples`, `evidence`, `trajectories`, `cells`.

    Examples (docs/tables.md has every column and more queries):

    - `turnwise sql "select arm, avg(flipped::int) from decisions group by arm"`

    - `turnwise sql "describe decisions"`

    - `turnwise sql --format csv "select * from updates where arm = 'turnwise'" > updates.csv`
    """
    from turnwise import tables

    rows = tables.query(CATALOGUE, query)
    {Format.table: _print_table, Format.csv: _print_csv, Format.json: _print_json}[form](rows)


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


@app.command()
def track() -> None:
    """Rebuild the MLflow runs of this experiment from `runs/`, `reports/` and `dvc.lock`.

    A parent run for the configuration, a child for each cell. Running it again changes nothing that is up to date.

    Example: `turnwise track && mlflow ui --backend-store-uri sqlite:///mlflow.db`
    """
    from turnwise.config import read_params
    from turnwise.tracking import track

    runs = track(Path(), read_params())
    print(f"mlflow.db: {runs} runs of this experiment; `make up` shows them")


@app.command()
def report() -> None:
    """Write `reports/index.html` anew from what `dvc repro` left in `runs/` and `reports/`.

    Example: `turnwise report`
    """
    from turnwise.config import read_params

    params = read_params()
    from turnwise.analysis import report

    report(Path(), params, REPORTS)
    print(f"{REPORTS / 'index.html'} is written")


if __name__ == "__main__":
    main()
