"""The gallery: one page a trajectory, and one that filters them. Each page holds all it shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from turnwise.analysis.cards import HALF, Card, Stage
from turnwise.analysis.citing import trajectory
from turnwise.analysis.pages import render, source
from turnwise.analysis.trajectories import PICKED, TYPICAL, Summary, gallery
from turnwise.analysis.vega import write_png
from turnwise.config import Params
from turnwise.files import replacing, write_text

STYLES = ("report.css", "card.css")


def style() -> Markup:
    """The style sheets of every page that shows a card."""
    return Markup("\n").join(source(name) for name in STYLES)


def write_gallery(cells: Sequence[Sequence[Summary]], stage: Stage, params: Params, folder: Path) -> None:
    """Write `folder`/index.html and a page a trajectory chosen from each cell's, by rename of the whole folder."""
    ones = gallery(cells)
    with replacing(folder) as scratch:
        strips: dict[str, str] = {}
        tiles = []
        for place, one in enumerate(ones):
            card = stage.card(one)
            before, after = ones[place - 1 : place], ones[place + 1 : place + 2]
            write_text(scratch / one.file, page_of(card, *(near[0].file if near else "" for near in (before, after))))
            strip = stage.strip(one)
            tiles.append(_tile(card, strips.setdefault(strip, f"s{len(strips)}")))
        index = _index(tiles, {name: uri for uri, name in strips.items()}, sum(map(len, cells)), params)
        write_text(scratch / "index.html", index)


def page_of(card: Card, before: str = "", after: str = "", *, alone: bool = False) -> str:
    """The page of one trajectory; `before` and `after` are its neighbours' files, and `alone` it has no gallery."""
    return render(
        "card.html.j2",
        card=card,
        query=trajectory(card.summary),
        style=style(),
        gallery=not alone,
        before=before,
        after=after,
    )


def write_card_png(card: Card, path: Path) -> None:
    """The card as a PNG for papers, 2080 pixels wide."""
    write_png(render("card.png.j2", card=card, style=source("card.css")), path)


def _index(tiles: Sequence[dict[str, Any]], strips: dict[str, str], total: int, params: Params) -> str:
    ones: list[Summary] = [tile["summary"] for tile in tiles]
    choices = {
        "arm": list(dict.fromkeys(one.cell.arm for one in ones)),
        "seed": sorted({one.cell.seed for one in ones}),
        "episode": sorted({one.episode for one in ones}),
        "kind": list(dict.fromkeys(one.why for one in ones)),
    }
    return render(
        "gallery.html.j2",
        tiles=tiles,
        strips=strips,
        choices=choices,
        total=total,
        params=params,
        most_picked=PICKED,
        most_typical=TYPICAL,
        style=style(),
        script=source("gallery.js"),
    )


def _tile(card: Card, strip: str) -> dict[str, Any]:
    """A card in small: its bars and dash on 300 by 64 units."""
    step, unit = 300 / len(card.turns), 30 / HALF
    bars = [
        {
            "x": round(step * place + step * 0.15, 1),
            "y": round(32 + unit * turn["top"], 1),
            "height": round(unit * turn["height"], 1),
            "look": ("c-up" if turn["advantage_turn"] > 0 else "c-down") + " c-wait" * (turn["kind"] == "silence"),
        }
        for place, turn in enumerate(card.turns)
    ]
    dash = round(32 - 30 * card.summary.advantage / card.scale, 1)
    return {"summary": card.summary, "bars": bars, "wide": round(step * 0.7, 1), "dash": dash, "strip": strip}
