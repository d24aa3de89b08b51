"""Outputs that appear whole or not at all: everything is written beside its place and renamed into it."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnwise.errors import UserError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a scratch path beside `path` (same suffix, missing); on success rename it over `path`, else remove it.

    The body may create a file or a directory, which takes the place of what is at `path`; but a file never takes that of
    a directory (UserError). What a killed process left beside `path` is removed, too.
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
            if not scratch.is_dir():
                raise UserError(f"{path}: is a folder; name a file in it, or remove it")
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


def read_json(path: Path, remedy: str, *fields: str) -> Any:
    """The JSON object in a file, or the list of objects. Raises UserError, with the remedy, where there is none, or where
    one lacks one of `fields`.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}); {remedy}") from None
    for record in value if isinstance(value, list) else [value]:
        if not isinstance(record, dict):
            raise UserError(f"{path}: holds {json.dumps(record)[:40]} where an object belongs; {remedy}")
        if lacking := [field for field in fields if field not in record]:
            raise UserError(f"{path}: {lacking[0]}: is missing; {remedy}")
    return value


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
