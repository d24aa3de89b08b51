"""The tables of an experiment: their columns, parquet files, and the DuckDB catalogue. The only importer of duckdb."""

from turnwise.tables.catalogue import CATALOGUE, build_catalogue, query
from turnwise.tables.columns import (
    concat,
    decision_columns,
    evidence_columns,
    evidence_from,
    groups_from,
    trajectories_from,
    trajectory_columns,
)
from turnwise.tables.parquet import read_table, write_table
from turnwise.tables.schema import KEYS, PLACES, SCHEMAS, TERMS, schema_of

__all__ = [
    "CATALOGUE",
    "KEYS",
    "PLACES",
    "SCHEMAS",
    "TERMS",
    "build_catalogue",
    "concat",
    "decision_columns",
    "evidence_columns",
    "evidence_from",
    "groups_from",
    "query",
    "read_table",
    "schema_of",
    "trajectories_from",
    "trajectory_columns",
    "write_table",
]
