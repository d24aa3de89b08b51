"""Trajectory cards: one roll-out over time, GRPO's one advantage against TurnWise's per-decision ones.

A card is plain data with drawing coordinates; `card.svg.j2` turns it into a drawing, for a page and for a PNG.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from turnwise.analysis.cells import Cell
from turnwise.analysis.trajectories import Summary, rows
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.videos import read_frames

WIDTH, LEFT, RIGHT = 1000, 84, 16
HALF = 62
"""Height of the largest bar, in drawing units."""
THUMB, THUMBS = 64, 20
"""Side of a frame in drawing units, and the most frames of a card."""
LANE = 26
"""Height of a lane of expected windows."""
STRIP = 6
"""Frames in the strip that stands for an episode in the gallery."""


@dataclass(frozen=True)
class Card:
    """A trajectory with everything laid out; x and y are drawing units, times are seconds."""

    summary: Summary
    episode: Episode
    frames: list[dict[str, Any]]
    windows: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    ticks: list[dict[str, float]]
    silent_reward: float
    scale: float
    lanes: int

    @cached_property
    def replies(self) -> list[dict[str, Any]]:
        """The turns that are no silence."""
        return [turn for turn in self.turns if turn["kind"] != "silence"]


class Stage:
    """Builds cards: knows the episodes and reads each one's frames once."""

    def __init__(self, episodes: Mapping[str, Episode], data: Path, levels: int):
        self.episodes, self.data, self.levels = episodes, data, levels
        self._frames: dict[str, np.ndarray] = {}
        self._cell: Cell | None = None
        self._tables: list[pa.Table] = []

    def card(self, one: Summary) -> Card:
        """Lay out a trajectory; frames are read from its episode's clip. Raises UserError for clip and episode."""
        episode = self._episode(one)
        decisions, evidence = (rows(one, table) for table in self._of(one.cell))
        times = [row["time"] for row in decisions]
        start, end = episode.grid.start, max([times[-1], *(window.reply[1] for window in episode.windows)])
        unit = (WIDTH - LEFT - RIGHT) / (end - start)

        def x(time: float) -> float:
            return round(LEFT + unit * (time - start), 1)

        scale = max(1.0, *(abs(row["advantage_turn"]) for row in decisions), abs(one.advantage))
        turns = [
            {
                **row,
                **_bar(row, scale),
                "x": x(row["time"]),
                "gain": _gain(row),
                **_verdict(facts, episode, self.levels),
            }
            for row, facts in zip(decisions, evidence, strict=True)
        ]
        for number, turn in enumerate((turn for turn in turns if turn["kind"] != "silence"), start=1):
            turn["number"] = number
        windows = _in_lanes(
            [
                {"window": window, "x": x(max(window.reply[0], start)), "right": x(window.reply[1])}
                for window in episode.windows
                if window.reply[1] > start
            ]
        )
        return Card(
            summary=one,
            episode=episode,
            frames=self._thumbnails(episode, times, x),
            windows=windows,
            queries=_asked(episode, [x(max(query.time, start)) for query in episode.queries]),
            turns=turns,
            ticks=[{"x": x(time), "time": time} for time in _ticks(start, end)],
            silent_reward=decisions[0]["silent_reward"],
            scale=scale,
            lanes=1 + max((band["lane"] for band in windows), default=0),
        )

    def _of(self, cell: Cell) -> list[pa.Table]:
        """Decisions and evidence of a cell; kept until another cell is asked for."""
        if self._cell != cell:
            self._cell, self._tables = cell, [cell.table(name) for name in ("decisions", "evidence")]
        return self._tables

    def strip(self, one: Summary) -> str:
        """A few frames of its episode side by side, as a data URI."""
        frames = self._read(self._episode(one))
        shown = frames[np.linspace(0, len(frames) - 1, min(STRIP, len(frames))).round().astype(int)]
        return _jpeg(np.concatenate([np.asarray(_small(frame, 56)) for frame in shown], axis=1), 70)

    def _episode(self, one: Summary) -> Episode:
        if one.episode not in self.episodes:
            raise UserError(
                f"{self.data}/rl.jsonl: id: {one.episode!r} is missing, which {one.cell.folder} has rolled out; put the "
                "episode back, or `dvc repro` brings both together"
            )
        return self.episodes[one.episode]

    def _read(self, episode: Episode) -> np.ndarray:
        if episode.id not in self._frames:
            self._frames[episode.id] = read_frames(self.data / episode.clip, episode.grid.times)
        return self._frames[episode.id]

    def _thumbnails(self, episode: Episode, times: Sequence[float], x: Any) -> list[dict[str, Any]]:
        every = -(-len(times) // THUMBS)
        shown = range(every - 1, len(times), every)
        width = min(THUMB, (WIDTH - LEFT - RIGHT) / len(shown) - 2)
        frames = self._read(episode)
        return [
            {
                "x": round(x(times[turn]) - width, 1),
                "size": round(width, 1),
                "time": times[turn],
                "uri": _jpeg(np.asarray(_small(frames[turn], 128)), 80),
            }
            for turn in shown
        ]


def _verdict(facts: Mapping[str, Any], episode: Episode, levels: int) -> dict[str, Any]:
    """What the judge said of a turn, at length and in a word."""
    if facts["kind"] == "silence":
        return {"verdict": "", "mark": ""}
    judged = [
        (level, window) for level, window in zip(facts["levels"], episode.windows, strict=False) if level is not None
    ]
    parts = [f"level {level:.0f} of {levels - 1} for “{window.text}”" for level, window in judged]
    parts += ["malformed"] * (facts["kind"] == "malformed")
    parts += ["repeated"] * bool(facts["repeat"])
    parts += ["outside every window"] * facts["outside"]
    parts += ["a verdict is missing"] * facts["abstained"]
    mark = _mark(facts, [level for level, _ in judged], levels)
    return {"verdict": "; ".join(parts) or "no window to judge it for", "mark": mark}


def _mark(facts: Mapping[str, Any], judged: Sequence[float], levels: int) -> str:
    if judged:
        return f"{max(judged):.0f}/{levels - 1}"
    if facts["abstained"]:
        return "?"
    return "again" if facts["repeat"] else "\N{EN DASH}"


def _in_lanes(bands: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Windows from left to right, each in the first lane where it overlaps none."""
    ends: list[float] = []
    for band in sorted(bands, key=lambda band: band["x"]):
        lane = next((lane for lane, end in enumerate(ends) if end <= band["x"]), len(ends))
        ends[lane : lane + 1] = [band["right"]]
        band |= {"lane": lane, "width": round(band["right"] - band["x"], 1)}
    return bands


def _asked(episode: Episode, places: Sequence[float]) -> list[dict[str, Any]]:
    """Queries with the room their text has: up to the next one, or the edge."""
    rooms = [right - left - 16 for left, right in pairwise([*places, WIDTH])]
    queries = zip(episode.queries, places, rooms, strict=True)
    return [{"query": query, "x": x, "room": round(max(0.0, room), 1)} for query, x, room in queries]


def _bar(row: Mapping[str, Any], scale: float) -> dict[str, float]:
    """Where the bar of a decision begins, from the zero line, down the page; and its height."""
    height = round(HALF * row["advantage_turn"] / scale, 1)
    return {"top": min(0.0, -height), "height": abs(height)}


def _ticks(start: float, end: float) -> list[float]:
    """Times of the axis: every five seconds in a minute, every ten in two."""
    step = 5 * np.ceil((end - start) / 60)
    return np.arange(np.ceil(start / step) * step, end, step).tolist()


def _gain(row: Mapping[str, Any]) -> float:
    """U[t] - U[t-1]: what this decision alone changed of the reward."""
    return row["prefix_score"] - row["earned"] - row["silent_reward"]


def _small(frame: np.ndarray, side: int) -> Image.Image:
    image = Image.fromarray(frame)
    image.thumbnail((side, side))
    return image


def _jpeg(pixels: np.ndarray, quality: int) -> str:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
