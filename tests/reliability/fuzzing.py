"""Damaged files: cuts, flips and nasty values, the same ones each time, and what reading them may come to."""

import json
import random
import string
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from turnwise.errors import UserError

NASTY: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "\x00",
    "../../etc/passwd",
    "/etc/passwd",
    "'; drop table decisions; --",
    "<script>alert(1)</script>",
    "$(touch /tmp/x)",
    "\ud800",
    "\U0001f600" * 3,
    [],
    {},
    [[[[]]]],
    {"": {"": []}},
)
LONG = b"[" * 200_000


def damaged_bytes(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Some thousand brackets, nothing at all, then `count` files that are cut, flipped, spliced or filled with noise."""
    rng = random.Random(seed)
    yield from (b"", LONG, b"\xff\xfe\x00", whole + whole, whole + b"\x00")
    for number in range(count):
        at, end = sorted(rng.randrange(len(whole) + 1) for _ in range(2))
        noise = rng.randbytes(rng.choice((1, 2, 8, 64)))
        kind = number % 5
        if kind == 0:
            yield whole[:at]
        elif kind == 1:
            yield whole[:at] + bytes([whole[at % len(whole)] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        elif kind == 2:
            yield whole[:at] + noise + whole[at:]
        elif kind == 3:
            yield whole[:at] + whole[end:]
        else:
            yield whole[:at] + noise + whole[at + len(noise) :]


def damaged_values(value: Any, count: int, seed: int = 0) -> Iterator[Any]:
    """`count` copies of a JSON-like value in which one place holds something nasty, is gone, or stands twice."""
    rng = random.Random(seed)
    places = list(_places(value))
    for _ in range(count):
        copy = deepcopy(value)
        *path, last = rng.choice(places)
        parent = copy
        for part in path:
            parent = parent[part]
        how = rng.randrange(4)
        if how == 0:
            del parent[last]
        elif how == 1 and isinstance(parent, dict):
            parent["".join(rng.choices(string.printable, k=5))] = parent[last]
        elif how == 1:
            parent.insert(last, parent[last])
        else:
            parent[last] = deepcopy(rng.choice(NASTY))
        yield copy


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    keyed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in keyed:
        yield (key,)
        yield from ((key, *rest) for rest in _places(inner))


def as_json(value: Any) -> bytes:
    """JSON text, with what JSON has no word for left as Python writes it (NaN, Infinity, lone surrogates escaped)."""
    return json.dumps(value).encode()


def refused_or_read(read: Callable[[Path], Any], path: Path, content: bytes, counts: dict[str, int]) -> Any:
    """What `read` makes of a damaged file: its answer, or None where it says clearly what is wrong.

    A clear error is a UserError in one line or a few that names the file. Anything else is raised.
    """
    path.write_bytes(content)
    counts["read"] += 1
    try:
        return read(path)
    except UserError as error:
        counts["refused"] += 1
        message = str(error)
        assert path.name in message or path.parent.name in message, message
        assert "Traceback" not in message
        assert len(message) < 2_000, message[:300]
        return None
