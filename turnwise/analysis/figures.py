"""The paper's two figures, as Vega-Lite specifications: the data in them are counts, nothing is fitted or smoothed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from turnwise.analysis.cells import values
from turnwise.analysis.vega import Spec, chart, hover, layer, number, word
from turnwise.records import Float

SIGNS = ("negative", "zero", "positive")
HEXAGON = "M0,-1L0.866,-0.5L0.866,0.5L0,1L-0.866,0.5L-0.866,-0.5Z"
COLUMNS, SIDE = 40, 400
"""Hexagons across the square of advantages, and its side in pixels."""


def advantages(decisions: pa.Table, flip_share: float | None) -> Spec:
    """Hexbin of A_global against A_turn over the decisions of live groups, with the identity line and the flip share.

    Flips lie in the shaded quadrants.
    """
    live = decisions.filter(decisions["live"])
    x, y = values(live, "advantage_global"), values(live, "advantage_turn")
    reach = round(1.05 * max(1.0, np.abs(x).max(initial=0), np.abs(y).max(initial=0)), 3)
    scale = {"domain": [-reach, reach], "nice": False}
    place: Spec = {
        "x": number("x", "global advantage (GRPO: one a trajectory)", scale=scale),
        "y": number("y", "turn advantage (TurnWise: one a decision)", scale=scale),
    }
    flips = [{"x": -reach, "x2": 0, "y": 0, "y2": reach}, {"x": 0, "x2": reach, "y": -reach, "y2": 0}]
    shown = "no decisions" if flip_share is None else f"{100 * flip_share:.2f} % change sign"
    said = [{"x": -0.96 * reach, "y": 0.93 * reach, "text": shown}]
    bold = {"align": "left", "fontSize": 14, "fontWeight": 650, "fill": "var(--negative)"}
    shade = {"fill": "var(--negative)", "opacity": 0.09}
    axis = {"color": "var(--muted)", "strokeWidth": 0.8}
    same = {"strokeDash": [5, 4], "color": "var(--ink)", "strokeWidth": 1}
    layers = [
        layer("rect", data=flips, looks=shade, **place, x2={"field": "x2"}, y2={"field": "y2"}),
        layer("line", data=_line((0, -reach), (0, reach)), looks=axis, **place),
        layer("line", data=_line((-reach, 0), (reach, 0)), looks=axis, **place),
        _hexbin(hexagons(x, y, reach), place),
        layer("line", data=_line((-reach, -reach), (reach, reach)), looks=same, **place),
        layer("text", data=said, looks=bold, **place, text={"field": "text"}),
    ]  # fmt: skip
    return chart(width=SIDE, height=SIDE, layer=layers)


def _line(start: tuple[float, float], end: tuple[float, float]) -> list[dict[str, float]]:
    return [{"x": x, "y": y} for x, y in (start, end)]


def _hexbin(cells: list[dict[str, float]], place: Spec) -> Spec:
    fill = "var(--positive)"
    looks = {
        "shape": HEXAGON,
        "size": round(4 * (SIDE / COLUMNS) ** 2 / 3, 2),
        "filled": True,
        "fill": fill,
        "strokeWidth": 0,
    }
    legend = {"title": "decisions", "symbolType": HEXAGON, "symbolFillColor": fill, "symbolStrokeWidth": 0}
    depth = number("decisions", scale={"type": "log", "range": [0.16, 1]}, legend=legend)
    names = [
        ("decisions", "decisions", ",d"),
        ("x", "global advantage near", "+.2f"),
        ("y", "turn advantage near", "+.2f"),
    ]
    tips = [number(field, title, format=form) for field, title, form in names]
    return layer("point", data=cells, looks={**looks, "clip": True}, **place, opacity=depth, tooltip=tips)


def hexagons(x: Float, y: Float, reach: float) -> list[dict[str, float]]:
    """Counts of points in upright hexagons, `COLUMNS` across [-reach, reach]: centre and count of those that hold any.

    A hexagon's points are nearest to its centre among two rectangular lattices, one shifted by half a step both ways.
    """
    step = 2 * reach / COLUMNS * np.array([1.0, np.sqrt(3)])
    places = np.stack([x, y], axis=1) / step
    even, odd = np.round(places), np.floor(places) + 0.5
    near = [((places - centre) ** 2) @ [1.0, 3.0] for centre in (even, odd)]
    centres, counts = np.unique(np.where((near[0] <= near[1])[:, None], even, odd), axis=0, return_counts=True)
    return [
        {"x": round(left, 4), "y": round(top, 4), "decisions": count}
        for (left, top), count in zip((centres * step).tolist(), counts.tolist(), strict=True)
    ]


def repeats(counts: Mapping[str, Any], paper: Mapping[str, Any]) -> Spec:
    """Stacked bars: replies judged repeated by the sign of their advantage under each rule, the paper's share marked."""
    rules = {"global": "global (GRPO)", "turn": "turn (TurnWise)"}
    bars = [part for rule, name in rules.items() for part in _signs(counts, rule, name)]
    marks = [
        {"rule": name, "share": paper[f"negative_{rule}"], "source": "the paper's negative share, as published"}
        for rule, name in rules.items()
    ]
    plain = {"labelFontSize": 12, "labelColor": "var(--ink)", "ticks": False, "domain": False}
    rule = word("rule", axis=plain)
    across: Spec = {"title": "share of the repeated replies", "axis": {"format": ".0%", "grid": False}}
    scale = {"domain": list(SIGNS), "range": [f"var(--{sign})" for sign in SIGNS]}
    sign = word("sign", scale=scale, legend={"orient": "top", "title": "advantage"})
    share = number("share", format=".1%")
    tips = hover(rule="", sign="", replies=",d", share=".2%")
    wide = [{**bar, "middle": (bar["left"] + bar["right"]) / 2} for bar in bars if bar["share"] >= 0.07]
    white = {"fill": "white", "fontSize": 13, "fontWeight": 650}
    tick = {"color": "var(--ink)", "thickness": 2, "height": {"band": 0.84}}
    layers = [
        layer("bar", data=bars, looks={"height": {"band": 0.62}}, y=rule, x=number("left", **across), x2={"field": "right"},
              color=sign, tooltip=tips),
        layer("text", data=wide, looks=white, y=rule, x=number("middle", **across), text=share, tooltip=tips),
        layer("tick", data=marks, looks=tick, y=rule, x=number("share", **across), tooltip=hover(source="", share=".1%")),
    ]  # fmt: skip
    return chart(left=20, width=SIDE - 40, height=150, layer=layers)


def _signs(counts: Mapping[str, Any], rule: str, name: str) -> list[dict[str, Any]]:
    """The three parts of a bar from 0 to 1."""
    total = counts["replies"]
    negative, zero = (counts[f"{sign}_{rule}_count"] for sign in ("negative", "zero"))
    numbers = (negative, zero, total - negative - zero)
    ends = np.cumsum([0, *numbers]) / max(1, total)
    parts = zip(SIGNS, numbers, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return [
        {"rule": name, "sign": sign, "replies": count, "share": count / max(1, total), "left": left, "right": right}
        for sign, count, left, right in parts
    ]
