"""Outputs that appear whole or not at all: everything is written beside its place and renamed into it."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a scratch path beside `path` (same suffix, missing); on success rename it over `path`, else remove it.

    The body may create a file or a directory. An existing directory at `path` is removed just before the rename. What
    a killed process left beside `path` is removed, too.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.stem}.*.part{path.suffix}"):
        if not _alive(left.name.removesuffix(f".part{path.suffix}").rpartition(".")[2]):
            _remove(left)
    scratch = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    _remove(scratch)
    try:
        yield scratch
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        scratch.replace(path)
    finally:
        _remove(scratch)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text by rename."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write indented JSON, keys in the order given, by rename. NaN and infinity are refused (ValueError)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line, by rename."""
    with replacing(path) as scratch, scratch.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def fingerprint(value: Any, *paths: str | Path) -> str:
    """16 hex digits of SHA-256 over a JSON-able value and the bytes of files (directories: every file below, sorted)."""
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode())
    for path in map(Path, paths):
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            digest.update(str(file.relative_to(path)).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
