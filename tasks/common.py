"""What every stage's script does the same way: read its configuration, say errors plainly, book its time."""

import inspect
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import turnwise
from turnwise import config
from turnwise.errors import UserError, lacked
from turnwise.files import fingerprint
from turnwise.progress import STAGE
from turnwise.timings import Line, book


def run(main: Callable[..., None]) -> None:
    """Call a stage's `main` with the command line's words; a UserError becomes one line and exit status 2.

    So does what the machine lacks (disk, memory, a right to write), with exit status 1: another try may do better.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    STAGE.set(True)
    try:
        words = inspect.signature(main).bind(*sys.argv[1:])
    except TypeError:
        usage = " ".join(f"<{name}>" for name in inspect.signature(main).parameters)
        sys.exit(_say(f"usage: python -m tasks.{Path(sys.argv[0]).stem} {usage}", 2))
    try:
        main(*words.args)
    except UserError as error:
        sys.exit(_say(f"error: {error}", 2))
    except FileNotFoundError as error:
        sys.exit(
            _say(f"error: {error.filename}: no such file; put it there, or `dvc repro` makes what is not yours", 2)
        )
    except KeyboardInterrupt:
        sys.exit(_say("interrupted; outputs are whole or absent, run the stage again to go on", 130))
    except Exception as error:
        lack = lacked(error)
        if lack is None:
            raise
        sys.exit(_say(f"error: {lack}; outputs are whole or absent, run the stage again to go on", 1))


def _say(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status


def seed_of(word: str, params: config.Params) -> int:
    """A seed from the command line. Raises UserError unless params.yaml names it."""
    if word not in map(str, params.seeds):
        raise UserError(f"params.yaml: seeds: {word!r} is not one of {list(params.seeds)}")
    return int(word)


def identity(values: dict[str, Any], code: Iterable[str], *paths: Path) -> str:
    """What unfinished work in state/ belongs to: values, the bytes of files and folders, code, and the libraries under it.

    `code` holds patterns of modules below `turnwise`, such as `policy/*`.
    """
    libraries = {library: version(library) for library in ("torch", "transformers", "accelerate", "numpy")}
    package = Path(turnwise.__file__).parent
    modules = sorted(file for pattern in code for file in package.glob(f"{pattern}.py"))
    return fingerprint({**values, "libraries": libraries}, *paths, *modules)


@contextmanager
def timed(stage: str, cell: str) -> Iterator[Callable[[Line], None]]:
    """Book seconds and peak memory of the block to timings/<stage>/<cell>.jsonl; yields a function that books a line."""
    path = Path("timings") / stage / f"{cell}.jsonl"
    start = time.perf_counter()
    yield partial(book, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    book(path, {"seconds": round(time.perf_counter() - start, 3), "peak_mb": round(peak, 1), "pid": os.getpid()})
