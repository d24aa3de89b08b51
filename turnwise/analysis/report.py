"""The report stage: one HTML page that holds all it shows (styles, figures, frames) and asks for nothing from outside."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from turnwise.analysis.ablation import METRICS
from turnwise.analysis.answer import agreement_sentence, credit_sentence, effect_sentence, percent
from turnwise.analysis.cards import build_card, choose
from turnwise.analysis.cells import SFT, Cell, find_cells, main_arm
from turnwise.analysis.figures import GRID, INK, MUTED
from turnwise.analysis.tabular import caption, fewer, interval, number
from turnwise.analysis.timings import read_timings
from turnwise.config import Params
from turnwise.episodes import read_episodes
from turnwise.errors import UserError
from turnwise.files import write_text

FIGURES = ("ablation", "curves", "advantages", "redundancy")
NUMBERS = ("ablation", "sign_flips", "redundancy")
PACKAGES = (
    "turnwise",
    "torch",
    "transformers",
    "accelerate",
    "numpy",
    "decord",
    "av",
    "duckdb",
    "dvc",
    "prefect",
    "mlflow",
)


def report(root: Path, params: Params, out: Path) -> None:
    """Write `out`/index.html from what `analyze` left in `out`, the decision tables and clips below `root`, and timings.

    Raises UserError for a missing cell, clip, or number.
    """
    cells = find_cells(root, params)
    numbers = {name: json.loads(_read(out / f"{name}.json")) for name in NUMBERS}
    table, flips, repeats, main = numbers["ablation"], numbers["sign_flips"], numbers["redundancy"], main_arm(params)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            params=params,
            table=table,
            flips=flips,
            repeats=repeats,
            main=main,
            metrics=METRICS,
            caption=caption(table),
            answer=[effect_sentence(table, main), credit_sentence(flips, repeats)],
            agreement=agreement_sentence(table, params),
            figures={name: inline_svg(name, _read(out / "figures" / f"{name}.svg")) for name in FIGURES},
            cards=_cards(root, cells),
            timings=read_timings(root / "timings", params),
            versions=_versions(),
            parameters=yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        )
    )
    write_text(out / "index.html", page)


def _read(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no such file; the analyze stage writes it: `dvc repro analyze`")
    return path.read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("turnwise.analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = {"number": number, "interval": interval, "fewer": fewer, "percent": percent, "seconds": seconds}
    environment.filters.update(**named, signed=signed, spell=spell, code=code)
    return environment


def code(sentence: str) -> Markup:
    """A sentence as HTML: escaped, with `words in backticks` as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))


def spell(value: Any) -> str:
    """A protocol entry to read: nested mappings as `key: value; key: value`."""
    if isinstance(value, dict):
        parts = [f"{str(key).replace('_', ' ')}: {spell(inner)}" for key, inner in value.items()]
        return "; ".join(parts)
    return str(value)


def signed(value: float, digits: int) -> str:
    """A number with its sign, a true minus sign."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def seconds(value: float) -> str:
    """A duration to read: 12.3 s, or 4 min 05 s from two minutes on."""
    return f"{value:.1f} s" if value < 120 else f"{int(value // 60)} min {int(value % 60):02d} s"


def inline_svg(name: str, svg: str) -> Markup:
    """A figure of ours for use inside HTML: ids made unique to it, ink and grid handed to the page's theme."""
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r' xmlns(:\w+)?="[^"]*"', "", body)
    body = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in ((INK, "ink"), (MUTED, "muted"), (GRID, "grid")):
        body = body.replace(colour, f"var(--{variable})")
    return Markup(body)


def _cards(root: Path, cells: Sequence[Cell]) -> list[Any]:
    episodes = {episode.id: episode for episode in read_episodes(root / "data" / "rl.jsonl")}
    trained = [cell for cell in cells if cell.arm != SFT]
    return [build_card(choice, episodes[choice.rows[0]["episode"]], root / "data") for choice in choose(trained)]


def _versions() -> Mapping[str, str]:
    found = {"python": python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
