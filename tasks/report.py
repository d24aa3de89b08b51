"""Stage `report`: one self-contained HTML page, and the DuckDB catalogue over all cells."""

from pathlib import Path

from tasks.common import run, timed
from turnwise.analysis import report
from turnwise.config import read_params
from turnwise.tables import build_catalogue


def main() -> None:
    """Write reports/index.html and turnwise.duckdb."""
    params = read_params()
    with timed("report", "report"):
        cells = [(arm, seed) for arm in ("sft", *params.arms) for seed in params.seeds]
        build_catalogue(Path("turnwise.duckdb"), Path(), cells, params.reward.weights)
        report(Path(), params, Path("reports"))


if __name__ == "__main__":
    run(main)
