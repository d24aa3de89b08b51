"""Which trajectories there are, by name, and which of them the gallery and the report show.

A trajectory is named `arm/seed/update/episode/trajectory`, e.g. `turnwise/0/12/rl-0003-1/5`: the key of its rows in the
tables, in this order.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from turnwise.analysis.cells import Cell, values
from turnwise.errors import UserError

KEY = ("update", "episode", "trajectory")
PICKED, TYPICAL = 6, 4
"""Trajectories of each cell in the gallery: with the most flipped replies, and evenly spaced whatever they show."""

FAINT = 0.5
"""Trajectories nearer to their group's mean (in advantage) are picked only when there is nothing clearer."""


@dataclass(frozen=True)
class Summary:
    """One trajectory in numbers. `flipped` and `repeated` count replies; `mixed`: turn advantages of both signs."""

    cell: Cell
    update: int
    episode: str
    trajectory: int
    reward: float
    advantage: float
    replies: int
    repeated: int
    flipped: int
    flipped_repeats: int
    mixed: bool
    why: str = ""

    @property
    def name(self) -> str:
        """What `turnwise show` takes."""
        return f"{self.cell.arm}/{self.cell.seed}/{self.update}/{self.episode}/{self.trajectory}"

    @property
    def file(self) -> str:
        """Name of its page: its own name in letters, and of a length, that every file system takes."""
        slug = re.sub(r"[^A-Za-z0-9_.-]", "_", self.name.replace("/", "-"))[:120]
        plain = slug == self.name.replace("/", "-") and "/" not in self.episode
        return f"{slug}{'' if plain else '-' + hashlib.sha256(self.name.encode()).hexdigest()[:8]}.html"


def summaries(cell: Cell) -> list[Summary]:
    """Every trajectory of a cell, in the order of its table. Trajectories of dropped groups have no flips."""
    decisions = cell.table("decisions")
    spoke = values(decisions, "kind") != "silence"
    repeated, flipped = (values(decisions, name, False) for name in ("repeat", "flipped"))
    advantage = values(decisions, "advantage_turn")
    counted = {
        "replies": spoke,
        "repeated": repeated,
        "flipped": flipped & spoke,
        "flipped_repeats": flipped & repeated,
        "up": advantage > 0,
        "down": advantage < 0,
    }
    columns = [*KEY, "reward", "advantage_global"]
    sums = {name: column.astype(np.int64) for name, column in counted.items()}
    table = pa.table({name: decisions[name] for name in columns} | sums)
    grouped = table.group_by(columns, use_threads=False).aggregate([(name, "sum") for name in counted])
    return [_summary(cell, row) for row in grouped.to_pylist()]


def _summary(cell: Cell, row: dict[str, Any]) -> Summary:
    counts = {name: row[f"{name}_sum"] for name in ("replies", "repeated", "flipped", "flipped_repeats")}
    mixed = row["up_sum"] > 0 and row["down_sum"] > 0
    key = {name: row[name] for name in KEY}
    return Summary(cell, **key, reward=row["reward"], advantage=row["advantage_global"], **counts, mixed=mixed)


def gallery(cells: Iterable[Sequence[Summary]]) -> list[Summary]:
    """`PICKED` + `TYPICAL` of the trajectories of each cell, none twice; `why` says which kind."""
    chosen: dict[str, Summary] = {}
    for there in cells:
        picked = _distinct(sorted((one for one in there if one.flipped), key=_most_flipped))[:PICKED]
        places = np.linspace(0, len(there) - 1, min(TYPICAL, len(there))).round().astype(int)
        typical = [there[place] for place in places.tolist()]
        for why, ones in (("picked", picked), ("typical", typical)):
            for one in ones:
                chosen.setdefault(one.name, replace(one, why=why))
    return list(chosen.values())


def telling(there: Iterable[Summary]) -> list[tuple[str, Summary]]:
    """A title and a trajectory for each of two kinds, of different episodes; ties go to the earlier one.

    The one above its group's mean with the most repeats that get a negative A_turn, and the one below it with the most
    replies, not repeated, that get a positive one.
    """
    flips = [one for one in there if one.flipped]
    good = sorted((one for one in flips if one.advantage > 0), key=_most_flipped)
    poor = sorted(
        (one for one in flips if one.advantage < 0),
        key=lambda one: (_faint(one), one.flipped_repeats - one.flipped, one.flipped_repeats),
    )
    chosen = [("Above its group's mean, with replies that turn-level credit pushes down", one) for one in good[:1]]
    taken = {one.episode for _, one in chosen}
    fresh = [one for one in poor if one.episode not in taken] or poor
    return chosen + [("Below its group's mean, with replies that turn-level credit pulls up", one) for one in fresh[:1]]


def _most_flipped(one: Summary) -> tuple[Any, ...]:
    return _faint(one), -one.flipped_repeats, -one.flipped


def _faint(one: Summary) -> bool:
    return abs(one.advantage) < FAINT


def _distinct(ones: Iterable[Summary]) -> list[Summary]:
    """The first of each episode, in order."""
    first: dict[str, Summary] = {}
    for one in ones:
        first.setdefault(one.episode, one)
    return list(first.values())


def find(runs: Path, name: str) -> Summary:
    """The trajectory of that name below `runs`. Raises UserError for a name of another form, or of none that is there."""
    parts = name.split("/")
    form = "arm/seed/update/episode/trajectory"
    if len(parts) < 5 or not (parts[1].isdecimal() and parts[2].isdecimal() and parts[-1].isdecimal()):
        raise UserError(f"{name!r}: a trajectory is named {form}, e.g. turnwise/0/12/rl-0003-1/5")
    arm, seed, update, *episode, trajectory = parts
    cell = Cell(arm, int(seed), runs / arm / seed)
    if not (cell.folder / "decisions.parquet").is_file():
        raise UserError(f"{name!r}: there is no cell {arm}-{seed} in {runs}; `dvc repro` makes those of params.yaml")
    there = summaries(cell)
    key = (int(update), "/".join(episode), int(trajectory))
    steps: list[tuple[str, Callable[[Summary], Any]]] = [
        ("update", lambda one: one.update), ("episode", lambda one: one.episode), ("trajectory", lambda one: one.trajectory)
    ]  # fmt: skip
    for (field, of), wanted in zip(steps, key, strict=True):
        known = list(dict.fromkeys(of(one) for one in there))
        there = [one for one in there if of(one) == wanted]
        if not there:
            raise UserError(f"{name!r}: no {field} {wanted!r} there; it has {_some(known)}")
    return there[0]


def _some(there: Sequence[Any]) -> str:
    shown = ", ".join(map(str, there[:8]))
    return f"{shown}, ... ({len(there)} in all)" if len(there) > 8 else shown


def rows(one: Summary, table: pa.Table) -> list[dict[str, Any]]:
    """Its rows [T] of its cell's `decisions` or `evidence`, in order of turns."""
    named = [pc.field(name) == getattr(one, name) for name in KEY]
    return table.filter(named[0] & named[1] & named[2]).to_pylist()
