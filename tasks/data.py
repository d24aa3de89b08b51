"""Stage `data`: build the embedded world's clips, episodes and small benchmarks, every clip decoded and checked once."""

from pathlib import Path

from tasks.common import run, timed
from turnwise.config import read_params
from turnwise.files import replacing
from turnwise.worlds import build


def main() -> None:
    """Write data/."""
    params = read_params()
    with timed("data", "data"), replacing(Path("data")) as scratch:
        scratch.mkdir()
        build(params.data, params.stream, scratch)


if __name__ == "__main__":
    run(main)
