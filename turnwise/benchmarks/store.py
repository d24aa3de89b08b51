"""The predictions file: JSON Lines that are appended to as items are done, and gone on with after a kill.

The first line is a header with the protocol of the run; then one line an item: subset, item, replies [{time (s), text}].
"""

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from turnwise.benchmarks.items import Item, Reply
from turnwise.errors import UserError
from turnwise.files import fingerprint


def line_of(item: Item, replies: Sequence[Reply]) -> dict[str, Any]:
    """An item's line."""
    said = [{"time": reply.time, "text": reply.text} for reply in replies]
    return {"subset": item.subset, "item": item.id, "replies": said}


class PredictionFile:
    """A predictions file that is being written, by one process at a time. Use as a context manager.

    Each append is one write that is on disk before it returns; a line that a kill cut short is dropped on opening.
    """

    def __init__(self, path: Path, benchmark: str, protocol: Mapping[str, Any]):
        """Opens or creates the file.

        Raises UserError where it cannot be written, where another process is writing it, or where it holds anything
        but predictions of this protocol; where it is another one, the message names what differs.
        """
        self.path = path
        self.protocol, self.fingerprint = dict(protocol), fingerprint(dict(protocol))
        self.header = {"benchmark": benchmark, "protocol": self.protocol, "fingerprint": self.fingerprint}
        self._file = _opened(path)
        try:
            self._lock()
            self.done = self._resume()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "PredictionFile":
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Add lines."""
        self._file.write(b"".join(map(_bytes, lines)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another process is writing it; wait for it, or give another --out") from None

    def _resume(self) -> set[str]:
        """Keys of the items that the file has; cuts off an unfinished line, and writes the header where there is none."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        lines = [self._parsed(number, line) for number, line in enumerate(content[:whole].splitlines(), start=1)]
        if lines:
            self._check(lines[0])
        elif not _bytes(self.header).startswith(content):
            raise UserError(f"{self.path}: is no predictions file; give another --out")
        self._file.truncate(whole)
        if not lines:
            self.append([self.header])
        return {f"{line['subset']}/{line['item']}" for line in lines[1:]}

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not ({"subset", "item"} <= value.keys() or number == 1):
            raise UserError(f"{self.path}:{number}: is no prediction; mend the line, or give another --out")
        return value

    def _check(self, header: Mapping[str, Any]) -> None:
        if header.get("fingerprint") == self.fingerprint:
            return
        there = header.get("protocol")
        if not isinstance(there, dict):
            raise UserError(f"{self.path}: is no predictions file of `turnwise eval infer`; give another --out")
        differ = [name for name in self.protocol | there if there.get(name) != self.protocol.get(name)]
        raise UserError(
            f"{self.path}: holds predictions of another run, which differs in {', '.join(differ) or 'its fingerprint'}; "
            "give another --out, or delete the file to start anew"
        )


def _opened(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be written: {reason}; give another --out") from None


def _bytes(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode()
