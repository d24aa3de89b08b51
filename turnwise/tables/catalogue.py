"""The DuckDB catalogue: a small file of views over the parquet tables of the cells, which stay where they are.

DuckDB takes one writer at a time, so cells write parquet and this file holds no rows. Its views name relative paths, so
another program that opens it must run in the catalogue's folder, or set the DuckDB variable `root` to that folder and a
slash, as `query` does. (`file_search_path` would not do: DuckDB looks in the working directory first.) DuckDB 1.2 and newer
can read the file.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from turnwise.errors import UserError
from turnwise.files import replacing
from turnwise.tables.schema import PLACES, SCHEMAS, schema_of, sql_type
from turnwise.tables.views import ABLATION, VIEWS

CATALOGUE = "turnwise.duckdb"
"""Its name in the folder of an experiment."""
STORAGE = "v1.2.0"
TABLE = "reports/ablation.csv"
READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
"""What `query` runs: a COPY or an EXPORT would write files even where the catalogue is read-only."""
RUNNING = re.compile(r"\banaly[sz]e\b", re.IGNORECASE)
"""In an EXPLAIN: it runs what it explains, a COPY too."""
Cells = Sequence[tuple[str, int]]


def build_catalogue(path: str | Path, root: str | Path, cells: Cells, terms: Iterable[str]) -> None:
    """Write the catalogue of `cells` (arm, seed) at `path`, by rename: `cells`, a view for each table, and VIEWS.

    `terms` are those of the experiment's reward, which name columns.

    Views of tables have `arm` and `seed` first and hold the cells whose file is below `root`/runs now; a table that no cell
    has is empty. `ablation` is empty without `root`/reports/ablation.csv. `path` should lie in `root`, where `query` looks
    for the files.
    """
    settings: dict[str, Any] = {"storage_compatibility_version": STORAGE}
    with replacing(path) as scratch, duckdb.connect(scratch, config=settings) as connection:
        _set_root(connection, Path(root))
        connection.execute(f"create view cells as {_cells(cells)}")
        for name in SCHEMAS:
            files = {(arm, seed): f"runs/{arm}/{seed}/{PLACES[name]}" for arm, seed in cells}
            present = {cell: file for cell, file in files.items() if (Path(root) / file).is_file()}
            connection.execute(f"create view {_quoted(name)} as {_rows(schema_of(name, terms), present)}")
        for name, view in VIEWS.items():
            connection.execute(f"create view {_quoted(name)} as {view.sql}")
        connection.execute(f"create view ablation as {_ablation((Path(root) / TABLE).is_file())}")


def query(path: str | Path, sql: str) -> pa.Table:
    """The rows of `sql` on the catalogue at `path`, read-only, from any working directory.

    Raises UserError for a missing or locked catalogue, for tables that are gone, for SQL that DuckDB refuses, and for
    all but one statement that only reads.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such catalogue; `dvc repro` builds it, in the repository's root")
    try:
        with duckdb.connect(path, read_only=True) as connection:
            _set_root(connection, path.parent)
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type not in READING or _runs(statements[0]):
                raise UserError("SQL: give one statement that reads (select, describe, summarize, show, explain)")
            relation = connection.sql(statements[0].query)
            found = pa.table({}) if relation is None else relation.to_arrow_table()
    except duckdb.IOException as error:
        raise UserError(f"{path}: {_reason(error)}") from None
    except duckdb.Error as error:
        raise UserError(f"SQL: {str(error).strip()}") from None
    if twice := [name for name, count in Counter(found.column_names).items() if count > 1]:
        raise UserError(f"SQL: more than one column is named {twice[0]!r}; name them apart with `as`")
    return found


def _runs(statement: duckdb.Statement) -> bool:
    return statement.type == duckdb.StatementType.EXPLAIN and bool(RUNNING.search(statement.query))


def _reason(error: duckdb.IOException) -> str:
    message = str(error).splitlines()[0]
    if "lock" in message:
        return f"another program has the catalogue open for writing; close it and try again ({message})"
    if "not a valid" in message or "corrupt" in message:
        return f"{message}; delete it and run `dvc repro report`"
    return f"{message}; if tables were moved or removed, `dvc repro` writes them and the catalogue anew"


def _set_root(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    connection.execute(f"set variable root = {_literal(f'{root.resolve()}/')}").fetchall()


def _cells(cells: Cells) -> str:
    rows = ", ".join(f"({_literal(arm)}, {seed}, {_literal(f'runs/{arm}/{seed}')})" for arm, seed in cells)
    return f"select * from (values {rows}) as cell(arm, seed, folder)"


def _rows(schema: pa.Schema, files: dict[tuple[str, int], str]) -> str:
    if not files:
        return f"select null::varchar as arm, null::integer as seed, {_nulls(schema)} where false"
    columns = ", ".join(_quoted(column) for column in schema.names)
    return " union all ".join(
        f"select {_literal(arm)} as arm, {seed} as seed, {columns} from read_parquet({_place(file)})"
        for (arm, seed), file in files.items()
    )


def _ablation(there: bool) -> str:
    if not there:
        return f"select {_nulls(ABLATION)} where false"
    types = ", ".join(f"{_literal(field.name)}: {_literal(sql_type(field.type))}" for field in ABLATION)
    columns = ", ".join(_quoted(column) for column in ABLATION.names)
    seeds = "columns('seed_[0-9]+')::double"
    return f"select {columns}, {seeds} from read_csv({_place(TABLE)}, header = true, types = {{{types}}})"


def _nulls(schema: pa.Schema) -> str:
    return ", ".join(f"null::{sql_type(field.type)} as {_quoted(field.name)}" for field in schema)


def _place(file: str) -> str:
    """SQL: where a file of the experiment lies."""
    return f"coalesce(getvariable('root'), '') || {_literal(file)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
