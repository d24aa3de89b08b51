"""Stage `analyze`: sign flips, redundancy, the ablation with intervals, learning curves and figures."""

from pathlib import Path

from tasks.common import run, timed
from turnwise.analysis import analyze
from turnwise.config import read_params


def main() -> None:
    """Write reports/*.json, *.csv and figures/."""
    with timed("analyze", "analyze"):
        analyze(Path(), read_params(), Path("reports"))


if __name__ == "__main__":
    run(main)
