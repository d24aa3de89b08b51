"""Trajectory cards: one roll-out over time, GRPO's one advantage against TurnWise's per-decision ones.

A card is plain data with drawing coordinates; `card.html.j2` turns it into SVG. Cards are chosen by a rule, to show what
turn-level credit does, and are not typical trajectories; the page says so.
"""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from turnwise.analysis.cells import Cell
from turnwise.episodes import Episode, Window
from turnwise.videos import read_frames

WIDTH, LEFT, RIGHT = 1000, 84, 16
BARS, HALF = 278, 62
"""Height of the zero line of the bars, and of the largest bar, in drawing units."""
THUMB, THUMBS = 64, 14
"""Side of a frame in drawing units, and the most frames of a card."""

FAINT = 0.5
"""Trajectories nearer to their group's mean (in advantage) are shown only when there is nothing clearer."""


@dataclass(frozen=True)
class Choice:
    """A trajectory to show, and why."""

    cell: Cell
    title: str
    rows: list[dict[str, Any]]
    """Its decisions [T], columns of the decision table."""


@dataclass(frozen=True)
class Card:
    """A chosen trajectory with everything laid out; x and y are drawing units, times are seconds."""

    choice: Choice
    episode: Episode
    frames: list[dict[str, Any]]
    windows: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    ticks: list[dict[str, float]]
    advantage: float
    dash: float
    scale: float


def choose(cells: Sequence[Cell], most: int = 2) -> list[Choice]:
    """Up to `most` trajectories of each of two kinds, each of another episode, best first. Ties go to the earlier row.

    Those above their group's mean (A_global > 0) with the most replies that get a negative A_turn, repeated ones first;
    those below it with the most replies, not repeated, that get a positive one.
    """
    flips = [(cell, row) for cell in cells for row in _flip_counts(cell.table("decisions"))]
    good = [pick for pick in flips if pick[1]["advantage_global"] > 0]
    poor = [pick for pick in flips if pick[1]["advantage_global"] < 0]
    good.sort(key=lambda pick: (_faint(pick[1]), -pick[1]["repeats"], -pick[1]["replies"]))
    poor.sort(key=lambda pick: (_faint(pick[1]), pick[1]["repeats"] - pick[1]["replies"], pick[1]["repeats"]))
    chosen: list[Choice] = []
    for title, picks in (
        ("Above its group's mean, with replies that turn-level credit pushes down", good),
        ("Below its group's mean, with replies that turn-level credit pulls up", poor),
    ):
        taken = {choice.rows[0]["episode"] for choice in chosen}
        fresh = [pick for pick in picks if pick[1]["episode"] not in taken] or picks
        chosen += [Choice(cell, title, _rows(cell, key)) for cell, key in _distinct(fresh)[:most]]
    return chosen


def _faint(trajectory: dict[str, Any]) -> bool:
    return abs(trajectory["advantage_global"]) < FAINT


def _flip_counts(decisions: pa.Table) -> list[dict[str, Any]]:
    """For each trajectory with flipped replies: its key, A_global, and how many flipped replies and repeats it has."""
    flipped = decisions.filter(pc.field("flipped") & (pc.field("kind") != "silence"))
    keys = ["update", "episode", "trajectory", "advantage_global"]
    sums: list[Any] = [("turn", "count"), ("repeat", "sum", pc.ScalarAggregateOptions(min_count=0))]
    grouped = flipped.group_by(keys, use_threads=False).aggregate(sums)
    return grouped.rename_columns({"turn_count": "replies", "repeat_sum": "repeats"}).to_pylist()


def _distinct(picks: Iterable[tuple[Cell, dict[str, Any]]]) -> list[tuple[Cell, dict[str, Any]]]:
    """The first pick of each episode, in order."""
    first: dict[str, tuple[Cell, dict[str, Any]]] = {}
    for pick in picks:
        first.setdefault(pick[1]["episode"], pick)
    return list(first.values())


def _rows(cell: Cell, key: dict[str, Any]) -> list[dict[str, Any]]:
    named = [pc.field(name) == key[name] for name in ("update", "episode", "trajectory")]
    return cell.table("decisions").filter(named[0] & named[1] & named[2]).to_pylist()


def build_card(choice: Choice, episode: Episode, data: Path) -> Card:
    """Lay out a chosen trajectory; frames are read from the episode's clip below `data`. Raises UserError for the clip."""
    times, rows = episode.grid.times, choice.rows
    end = max([times[-1], *(window.reply[1] for window in episode.windows)])
    unit = (WIDTH - LEFT - RIGHT) / (end - episode.grid.start)

    def x(time: float) -> float:
        return round(LEFT + unit * (time - episode.grid.start), 1)

    scale = max(1.0, *(abs(row["advantage_turn"]) for row in rows), abs(rows[0]["advantage_global"]))
    windows = [
        _band(window, x(max(window.reply[0], episode.grid.start)), x(window.reply[1])) for window in episode.windows
    ]
    turns = [{**row, **_bar(row, scale), "x": x(row["time"]), "gain": _gain(row)} for row in rows]
    for number, turn in enumerate((turn for turn in turns if turn["kind"] != "silence"), start=1):
        turn["number"] = number
    return Card(
        choice=choice,
        episode=episode,
        frames=_thumbnails(data / episode.clip, times, [x(time) for time in times]),
        windows=[band for band in windows if band["width"] > 0],
        queries=_asked(episode, [x(max(query.time, episode.grid.start)) for query in episode.queries]),
        turns=turns,
        ticks=[{"x": x(time), "time": time} for time in _ticks(episode.grid.start, end)],
        advantage=rows[0]["advantage_global"],
        dash=round(BARS - HALF * rows[0]["advantage_global"] / scale, 1),
        scale=scale,
    )


def _band(window: Window, left: float, right: float) -> dict[str, Any]:
    return {"window": window, "x": left, "width": round(right - left, 1)}


def _asked(episode: Episode, places: Sequence[float]) -> list[dict[str, Any]]:
    """Queries with the room their text has: up to the next one, or the edge."""
    rooms = [right - left for left, right in zip(places, [*places[1:], WIDTH], strict=True)]
    queries = zip(episode.queries, places, rooms, strict=True)
    return [{"query": query, "x": x, "room": round(max(0.0, room - 16), 1)} for query, x, room in queries]


def _bar(row: dict[str, Any], scale: float) -> dict[str, float]:
    height = round(HALF * row["advantage_turn"] / scale, 1)
    return {"top": min(BARS, BARS - height), "height": abs(height)}


def _ticks(start: float, end: float) -> list[float]:
    """Times of the axis: every five seconds in a minute, every ten in two."""
    step = 5 * np.ceil((end - start) / 60)
    return np.arange(np.ceil(start / step) * step, end, step).tolist()


def _gain(row: dict[str, Any]) -> float:
    """U[t] - U[t-1]: what this decision alone changed of the reward."""
    return row["prefix_score"] - row["earned"] - row["silent_reward"]


def _thumbnails(clip: Path, times: Sequence[float], places: Sequence[float]) -> list[dict[str, Any]]:
    every = -(-len(times) // THUMBS)
    shown = slice(every - 1, None, every)
    frames = read_frames(clip, times[shown])
    width = min(THUMB, (WIDTH - LEFT - RIGHT) / len(frames) - 2)
    pairs = zip(frames, places[shown], times[shown], strict=True)
    return [
        {"x": round(x - width, 1), "size": round(width, 1), "time": t, "uri": _jpeg(frame)} for frame, x, t in pairs
    ]


def _jpeg(frame: np.ndarray) -> str:
    """A frame as a small JPEG data URI: at most 128 pixels on the longer side."""
    image, out = Image.fromarray(frame), io.BytesIO()
    image.thumbnail((128, 128))
    image.save(out, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
