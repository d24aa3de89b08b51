"""Tables as parquet files: checked against their schema, sorted by key, the same bytes for the same rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from turnwise.errors import UserError
from turnwise.files import replacing
from turnwise.tables.schema import KEYS, schema_of, terms_in


def write_table(name: str, columns: Mapping[str, Sequence[Any]], path: str | Path) -> None:
    """Write the rows of table `name`, sorted by its key, as zstd parquet, by rename.

    `columns` holds every column of SCHEMAS[name], all of one length, in any order, those for terms once for each term of the
    reward; None, and NaN of a float, become null.
    Raises ValueError naming table and column for a column that is missing, unknown, of another type or length, or without a
    value where one is due, and for a key that stands twice.
    """
    schema = schema_of(name, terms_in(name, columns))
    _check_columns(name, schema.names, columns)
    table = pa.Table.from_arrays([_array(name, field, columns[field.name]) for field in schema], schema=schema)
    keys = list(KEYS[name])
    if table.select(keys).group_by(keys).aggregate([]).num_rows < table.num_rows:
        raise ValueError(f"table {name}: the key ({', '.join(keys)}) must name one row, and one stands twice")
    with replacing(path) as scratch:
        rows = table.sort_by([(key, "ascending") for key in keys])
        pq.write_table(rows, scratch, compression="zstd", write_page_checksum=True)


def _check_columns(name: str, expected: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> None:
    rows = len(next(iter(columns.values()), ()))
    for fault, faulty in (
        ("is missing", [column for column in expected if column not in columns]),
        ("is not of this table", [column for column in columns if column not in expected]),
        (f"is not {rows} rows long like the first", [column for column in columns if len(columns[column]) != rows]),
    ):
        if faulty:
            raise ValueError(f"table {name}: column {', '.join(faulty)} {fault}")


def _array(name: str, field: pa.Field, values: Sequence[Any]) -> pa.Array:
    try:
        if pa.types.is_integer(field.type):
            array = pa.array(values).cast(field.type)  # building it as integers would cut 1.5 to 1 without a word
        else:
            array = pa.array(values, type=field.type, from_pandas=pa.types.is_floating(field.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise ValueError(f"table {name}: column {field.name} must be {field.type}: {error}") from None
    if array.null_count and not field.nullable:
        raise ValueError(
            f"table {name}: column {field.name} must have a value in every row, {array.null_count} have none"
        )
    return array


def read_table(name: str, path: str | Path) -> pa.Table:
    """Table `name` as written. Raises UserError naming path and column for a missing, damaged or other file."""
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file; `dvc repro` writes it")
    try:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable parquet file ({error}); delete it and run `dvc repro`") from None
    schema = schema_of(name, terms_in(name, table.column_names))
    for field in schema:
        if field.name not in table.column_names or table.schema.field(field.name).type != field.type:
            raise UserError(
                f"{path}: column {field.name} of table {name} is missing or not {field.type}; run `dvc repro`"
            )
    return table.select(schema.names).cast(schema)
