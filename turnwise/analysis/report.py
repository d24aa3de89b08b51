"""The report stage: one HTML page that holds all it shows (styles, charts, frames) and asks for nothing from outside."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import yaml
from markupsafe import Markup

from turnwise.analysis.ablation import METRICS
from turnwise.analysis.answer import agreement_sentence, credit_sentence, effect_sentence, power_sentence
from turnwise.analysis.cards import Stage
from turnwise.analysis.cells import SFT, find_cells, main_arm, warnings_of
from turnwise.analysis.citing import queries, trajectory
from turnwise.analysis.gallery import page_of, style, write_card_png, write_gallery
from turnwise.analysis.judges import read_comparisons
from turnwise.analysis.pages import render, source
from turnwise.analysis.tabular import caption
from turnwise.analysis.timings import read_timings
from turnwise.analysis.trajectories import find, summaries, telling
from turnwise.analysis.vega import bundle, picture
from turnwise.config import Params
from turnwise.episodes import read_episodes
from turnwise.errors import UserError
from turnwise.files import read_json, write_text
from turnwise.tables import CATALOGUE, build_catalogue

NUMBERS = {
    "ablation": ("arms", "seeds", "reference", "blind", "judge", "protocol"),
    "sign_flips": ("arms", "published"),
    "redundancy": ("arms", "published"),
    "truth": ("arm", "angle"),
}
"""What `analyze` left, and fields that are in it."""
CHARTS = ("advantages", "redundancy", "curves", "seeds", "truth")
"""Those that every experiment has."""
ANALYZED = "`dvc repro analyze` writes it"
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
    "vl-convert-python",
)


def report(root: Path, params: Params, out: Path) -> None:
    """Write `out`/index.html and `out`/cards/ from what `analyze` left in `out`, the tables and clips below `root`, and,
    where there are any, timings and comparisons of judges; and `root`/turnwise.duckdb, which its SQL reads.

    Raises UserError for a missing cell, clip, or number.
    """
    cells, main = find_cells(root, params), main_arm(params)
    table, flips, repeats, truth = _numbers(out, params)
    build_catalogue(root / CATALOGUE, root, [(cell.arm, cell.seed) for cell in cells], params.reward.weights)
    stage = _stage(root, params)
    charts = _charts(out / "figures")
    there = {cell: summaries(cell) for cell in cells}
    trained = [one for cell in cells if cell.arm != SFT for one in there[cell]]
    timings, comparisons = read_timings(root / "timings", params), read_comparisons(root)
    warned = [row for cell in cells if cell.arm != SFT for row in warnings_of(cell)]
    shown = telling(trained)
    asked = queries(params) | {f"trajectory_{place}": trajectory(one) for place, (_, one) in enumerate(shown)}
    there_is = {"phases": timings, "stages": timings, "judges": comparisons, "warnings": warned}
    absent = {name for name, data in there_is.items() if not data}
    page = render(
        "report.html.j2",
        params=params,
        table=table,
        flips=flips,
        repeats=repeats,
        truth=truth,
        main=main,
        metrics=METRICS,
        domains=_domains(table),
        caption=caption(table),
        answer=[effect_sentence(table, main), credit_sentence(flips, repeats)],
        remarks=[line for line in (power_sentence(table, main), agreement_sentence(table, params)) if line],
        charts=charts,
        pictures={name: Markup(picture(name, spec)) for name, spec in charts.items()},
        cards=[(title, one, stage.card(one)) for title, one in shown],
        trajectories=sum(map(len, there.values())),
        warnings=warned,
        timings=timings,
        comparisons=comparisons,
        queries={name: query for name, query in asked.items() if name not in absent},
        versions=_versions(),
        parameters=yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        style=style(),
        scripts=[Markup(bundle()), source("report.js")],
    )
    leading = sorted(cells, key=lambda cell: (cell.arm == SFT, cell.arm != main))
    write_gallery([there[cell] for cell in leading], stage, params, out / "cards")
    write_text(out / "index.html", page)


def show_card(root: Path, params: Params, name: str, folder: Path) -> Path:
    """Write the page of any trajectory of the experiment below `root` and return where it is.

    Raises UserError for a name that names none.
    """
    one = find(root / "runs", name)
    path = folder / one.file
    write_text(path, page_of(_stage(root, params).card(one), alone=True))
    return path


def draw_card(root: Path, params: Params, name: str, path: Path) -> None:
    """Write the card of any trajectory as a PNG, by rename. Raises UserError for a name that names none."""
    write_card_png(_stage(root, params).card(find(root / "runs", name)), path)


def _stage(root: Path, params: Params) -> Stage:
    episodes = {episode.id: episode for episode in read_episodes(root / "data" / "rl.jsonl")}
    return Stage(episodes, root / "data", params.judge.train.levels)


def _numbers(out: Path, params: Params) -> list[Any]:
    """What `analyze` left, in the order of NUMBERS, if it is of these arms."""
    numbers = {name: read_json(out / f"{name}.json", ANALYZED, *fields) for name, fields in NUMBERS.items()}
    if set(numbers["ablation"]["arms"]) != {SFT, *params.arms}:
        raise UserError(
            f"{out}/ablation.json: has other arms than params.yaml; `dvc repro analyze` brings it up to date"
        )
    return list(numbers.values())


def _charts(folder: Path) -> dict[str, Any]:
    """The charts that `analyze` left, by name."""
    names = {path.name.removesuffix(".vl.json") for path in folder.glob("*.vl.json")}.union(CHARTS)
    return {name: read_json(folder / f"{name}.vl.json", ANALYZED) for name in sorted(names)}


def _domains(table: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """For each metric the lowest and highest value of any cell, with some room: what the dots of its column lie on."""
    domains = {}
    for name in METRICS:
        values = [value for row in table["arms"].values() for value in row["metrics"][name]["seeds"].values()]
        known: Sequence[float] = [value for value in values if value is not None] or [0.0]
        room = max(1.0, 0.08 * (max(known) - min(known)))
        domains[name] = (min(known) - room, max(known) + room)
    return domains


def _versions() -> Mapping[str, str]:
    found = {"python": python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
