"""Stage `report`: one self-contained HTML page, and the DuckDB catalogue over all cells."""

from pathlib import Path

from tasks.common import run, timed
from turnwise.analysis import report
from turnwise.config import read_params


def main() -> None:
    """Write reports/index.html and turnwise.duckdb."""
    with timed("report", "report"):
        report(Path(), read_params(), Path("reports"))


if __name__ == "__main__":
    run(main)
