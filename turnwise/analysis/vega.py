"""Charts are Vega-Lite specifications: drawn here as files and as the page's first picture, and there again, with hover.

The only importer of vl-convert, which carries Vega (BSD) and its renderers, so nothing is fetched. Colours in a
specification are the page's style variables, `var(--ink)`; a file has the light theme's values in their place.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert

from turnwise.files import replacing, write_text

Spec = dict[str, Any]

FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
LIGHT = {
    "ink": "#1f2329",
    "muted": "#667080",
    "grid": "#e4e7ec",
    "card": "#ffffff",
    "accent": "#1f6fb2",
    "negative": "#d55e00",
    "zero": "#9aa1ab",
    "positive": "#2f7fc1",
    "window": "#e6f0f8",
    "window-edge": "#a9c8e2",
}
"""The style variables that drawings use, as `report.css` has them on paper."""

NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 has no way to hold (section 2.2); a policy may say them."""
CONFIG: Spec = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--muted)",
        "gridColor": "var(--grid)",
        "labelColor": "var(--muted)",
        "labelFontSize": 11,
        "tickColor": "var(--grid)",
        "titleColor": "var(--muted)",
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "header": {"labelColor": "var(--ink)", "labelFontSize": 12, "labelFontWeight": 600, "title": None},
    "legend": {"labelColor": "var(--ink)", "labelFontSize": 12, "titleColor": "var(--muted)", "titleFontSize": 11},
    "text": {"fill": "var(--ink)"},
}

_LIVE = """
window.drawChart = (place, spec) =>
  vegaEmbed(place, spec, {
    actions: false, renderer: "svg", ast: true, logLevel: 1, tooltip: {theme: "page"},
  });
"""
# `ast`: expressions are interpreted and never compiled, so the page may forbid eval. `logLevel` 1 is errors: of a panel in
# which one of the layers has no rows Vega would warn.


def chart(*, left: int = 4, **parts: Any) -> Spec:
    """A Vega-Lite specification in the house style. `left`: room in pixels for labels that a wider font makes longer."""
    padding = {"left": left, "right": 12, "top": 4, "bottom": 4}
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    return {"$schema": schema, "padding": padding, **parts, "config": CONFIG}


def layer(mark: str, *, data: Any = None, only: str | None = None, looks: Spec | None = None, **channels: Any) -> Spec:
    """A layer: a mark with its looks, of rows of its own (`data`) or of those for which the expression `only` holds."""
    spec: Spec = {"mark": {"type": mark, **(looks or {})}, "encoding": channels}
    if data is not None:
        spec["data"] = {"values": data}
    if only is not None:
        spec["transform"] = [{"filter": only}]
    return spec


def number(field: str | None, title: str | None = None, **more: Any) -> Spec:
    """A channel of a quantity."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def word(field: str, **more: Any) -> Spec:
    """A channel of a name, in the order of the rows."""
    return {"field": field, "type": "nominal", "sort": None, "title": None, **more}


def hover(**columns: str) -> list[Spec]:
    """A tooltip: column -> its number format, or nothing for one that is not formatted."""
    return [
        {"field": name, **({"type": "quantitative", "format": form} if form else {"type": "nominal"})}
        for name, form in columns.items()
    ]


def panels(rows: Any, titles: Any, layers: list[Spec], *, columns: int, own: str, **more: Any) -> Spec:
    """Small charts side by side, one for each of `titles` (column `panel`), each with its `own` scale of x or y.

    `more`: width and height of one, and channels that all its layers share (`encoding`).
    """
    left = more.pop("left", 4)
    return chart(
        left=left,
        data={"values": rows},
        facet={"field": "panel", "sort": list(titles), "header": {"labelAnchor": "start"}},
        columns=columns,
        spacing=20,
        resolve={"scale": {own: "independent"}},
        spec={**more, "layer": layers},
    )


def draw(spec: Spec, path: Path) -> None:
    """Write `path`.svg for papers and `path`.vl.json, the specification. The same specification gives the same bytes."""
    write_text(path.with_suffix(".svg"), _svg(path.name, on_paper(json.dumps(spec))))
    write_text(path.with_suffix(".vl.json"), json.dumps(spec, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def picture(name: str, spec: Spec) -> str:
    """A chart as an SVG element for use inside HTML: it takes the page's colours, and its ids begin with `name`."""
    return _svg(name, json.dumps(spec))


def _svg(name: str, spec: str) -> str:
    """The drawing with ids of its own: Vega counts them over all that a process draws."""
    svg = vl_convert.vegalite_to_svg(spec)
    places = {found: f"{name}-{place}" for place, found in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]*)"', svg)))}
    return re.sub(r'(\bid="|url\(#|href="#)([^")]*)', lambda use: use[1] + places[use[2]], svg)


def on_paper(drawing: str) -> str:
    """The light theme's colours in place of the page's variables."""
    return re.sub(r"var\(--([a-z-]+)\)", lambda variable: LIGHT[variable[1]], drawing)


def write_png(svg: str, path: Path) -> None:
    """An SVG drawing as a PNG of twice its size in pixels, on white, by rename. What XML forbids shows as U+FFFD."""
    with replacing(path) as scratch:
        scratch.write_bytes(vl_convert.svg_to_png(NO_XML.sub("\ufffd", on_paper(svg)), scale=2.0))


@cache
def bundle() -> str:
    """Vega, Vega-Lite and `drawChart(place, spec)` as one script (900 kB), wrapped so that its names stay its own."""
    return f"{{{vl_convert.javascript_bundle(_LIVE)}}}"
