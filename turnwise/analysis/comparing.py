"""Charts that compare arms: learning curves, differences to the reference, seeds, and alpha. Vega-Lite specifications."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from turnwise.analysis.ablation import METRICS
from turnwise.analysis.cells import SFT
from turnwise.analysis.vega import Spec, hover, layer, number, panels, word
from turnwise.records import Bool, Float

ARM_COLOURS = ("#2f7fc1", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#56b4e9", "#8c6bb1", "#a6761d")
"""Arms in order; told apart with the common colour-vision deficiencies (after Okabe and Ito)."""
PANELS = {name: f"{metric.label} {metric.arrow}" for name, metric in METRICS.items()}
STEP = 34
"""Height of an arm's row, in pixels."""
Curves = Mapping[str, Mapping[int, Mapping[str, Float]]]
Table = Mapping[str, Any]


def titles(term: str) -> dict[str, str]:
    """Column of `updates` -> title of its learning curve; `term` is the reward's largest."""
    return {
        "reward": "Reward of the sampled trajectories",
        "dev_reward": "Reward on the development split, greedy",
        f"dev_{term}": f"{term} term on the development split, greedy",
        "reply_rate": "Decisions that are not silent",
        "repeat_share": "Replies judged repeated",
        "flip_share": "Decisions whose advantage changes sign",
    }


def _arm(arms: Sequence[str], legend: Spec | None) -> Spec:
    """Colour by the place of an arm among the trained ones; without one every mark has to say which arm it is."""
    colours = [ARM_COLOURS[place % len(ARM_COLOURS)] for place in range(len(arms))]
    return word("arm", scale={"domain": list(arms), "range": colours}, legend=legend)


def curves(table: Curves, columns: Mapping[str, str]) -> Spec:
    """Learning curves, `table[arm][seed][column]` [U]: the mean over seeds, in a band from the lowest to the highest seed.

    `columns`: those to show, with their titles. A click on the legend singles out an arm.
    """
    rows = [
        row
        for column, title in columns.items()
        for arm, seeds in table.items()
        for row in _curve(list(seeds.values()), column, {"panel": title, "arm": arm})
    ]
    update = number("update", "update", axis={"grid": False, "tickMinStep": 1, "tickCount": 6})
    level: Spec = {"scale": {"zero": False}, "axis": {"tickCount": 4}}
    mean = number("mean", **level)
    strong, pale = (
        {"condition": {"param": "arms", "value": on}, "value": off} for on, off in ((1, 0.08), (0.13, 0.02))
    )
    dots = {"condition": {"test": "datum.few", "value": 18}, "value": 0}
    tips = hover(arm="", update="d") + [
        number(field, title, format=".3~f")
        for field, title in (("mean", "mean over seeds"), ("low", "lowest seed"), ("high", "highest seed"))
    ]
    target = layer("point", looks={"size": 120, "opacity": 0, "filled": True}, y=mean, tooltip=tips)
    target["params"] = [{"name": "arms", "select": {"type": "point", "fields": ["arm"]}, "bind": "legend"}]
    legend = {"orient": "top", "title": None, "symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 3}
    layers = [
        layer("area", looks={"strokeWidth": 0}, y=number("low", **level), y2={"field": "high"}, opacity=pale),
        layer("line", looks={"strokeWidth": 2}, y=mean, opacity=strong),
        layer("point", looks={"filled": True}, y=mean, opacity=strong, size=dots),
        target,
    ]
    shared = {"x": update, "color": _arm(list(table), legend)}
    return panels(rows, columns.values(), layers, columns=3, own="y", width=296, height=150, encoding=shared)


def _curve(seeds: Sequence[Mapping[str, Float]], column: str, named: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row an update at which every seed was measured; `few`: not at every update, so that each is a point."""
    levels = np.stack([seed[column] for seed in seeds])
    known: Bool = np.asarray(~np.isnan(levels).any(axis=0))
    update, levels = seeds[0]["update"][known], levels[:, known]
    spread = zip(
        update.tolist(), *(of(levels, axis=0).round(6).tolist() for of in (np.mean, np.min, np.max)), strict=True
    )
    few = bool(known.sum() < len(known))
    return [{**named, "update": u, "mean": mean, "low": low, "high": high, "few": few} for u, mean, low, high in spread]


def differences(table: Table) -> Spec:
    """One panel a metric, one row an arm: the differences to the reference seed by seed, their mean and t-interval."""
    arms = [arm for arm in table["arms"] if arm != SFT]
    shown = [arm for arm in arms if arm != table["reference"]]
    rows = [row for name in METRICS for arm in shown for row in _differences(table, arm, name)]
    axis = {"labelFontSize": 12, "labelColor": "var(--ink)", "ticks": False, "domain": False}
    across: Spec = {"title": f"points against {table['reference']}", "axis": {"tickCount": 5}}
    points = number("points", **across)
    whole = hover(arm="", points="+.1f", low="+.1f", high="+.1f")
    wide = {"strokeWidth": 5, "strokeCap": "round", "opacity": 0.35}
    dot = {"filled": True, "size": 42, "stroke": "var(--card)", "strokeWidth": 1, "opacity": 1}
    height: Spec = {"y": {"value": 0}, "y2": {"value": STEP * len(shown)}}
    layers = [
        layer("rule", x={"datum": 0, "type": "quantitative", **across}, **height, color={"value": "var(--muted)"}),
        layer(
            "rule",
            only="datum.kind == 'mean'",
            looks=wide,
            x=number("low", **across),
            x2={"field": "high"},
            tooltip=whole,
        ),
        layer("tick", only="datum.kind == 'mean'", looks={"thickness": 2.5, "height": 18}, x=points, tooltip=whole),
        layer("point", only="datum.kind == 'seed'", looks=dot, x=points, tooltip=hover(arm="", seed="", points="+.1f")),
    ]
    shared = {"y": word("arm", axis=axis), "color": _arm(arms, None)}
    size: Spec = {"width": 208, "height": {"step": STEP}}
    return panels(rows, PANELS.values(), layers, columns=len(PANELS), own="x", left=20, encoding=shared, **size)


def _differences(table: Table, arm: str, name: str) -> list[dict[str, Any]]:
    entry, theirs = (table["arms"][one]["metrics"][name] for one in (arm, table["reference"]))
    named = {"panel": PANELS[name], "arm": arm}
    low, high = entry["difference"]["interval"] or (None, None)
    mean = {**named, "kind": "mean", "points": entry["difference"]["mean"], "low": low, "high": high}
    pairs = {seed: (score, theirs["seeds"][seed]) for seed, score in entry["seeds"].items()}
    return [mean] + [
        {**named, "kind": "seed", "seed": seed, "points": pair[0] - pair[1]}
        for seed, pair in pairs.items()
        if None not in pair
    ]


def _scores(table: Table, arms: Iterable[str]) -> list[dict[str, Any]]:
    """One row a cell and metric."""
    return [
        {"panel": PANELS[name], "arm": arm, "seed": seed, "score": score}
        for name in METRICS
        for arm in arms
        for seed, score in table["arms"][arm]["metrics"][name]["seeds"].items()
        if score is not None
    ]


def seeds(table: Table) -> Spec:
    """One panel a metric: a line a seed over the arms, blind baselines dotted."""
    blind = [
        {"panel": PANELS[name], "blind": baseline, "score": score}
        for baseline, scores in table["blind"].items()
        for name, score in scores.items()
        if name in PANELS and score is not None
    ]
    arm = word("arm", axis={"labelAngle": -35, "labelColor": "var(--ink)", "grid": True})
    arm["sort"] = list(table["arms"])
    score = number("score", axis={"tickCount": 5})
    looks = {"color": "var(--accent)", "opacity": 0.75, "strokeWidth": 1.6}
    dot = {"filled": True, "size": 60, "color": "var(--accent)", "opacity": 1}
    dotted = {"strokeDash": [2, 3], "color": "var(--muted)"}
    tips = hover(arm="", seed="", score=".1f")
    seed = word("seed", title="seed", legend={"orient": "top"})
    layers = [
        layer("rule", only="isValid(datum.blind)", looks=dotted, y=score, tooltip=hover(blind="", score=".1f")),
        layer("line", only="isValid(datum.arm)", looks=looks, x=arm, y=score, detail=word("seed")),
        layer("point", only="isValid(datum.arm)", looks=dot, x=arm, y=score, shape=seed, tooltip=tips),
    ]
    rows = _scores(table, table["arms"]) + blind
    return panels(rows, PANELS.values(), layers, columns=len(PANELS), own="y", width=222, height=170)


def truth(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Two panels, a row an arm: the angle between expected and true gradient, and the noise of the estimate."""
    titles = {"angle": "angle to the true gradient, degrees", "noise": "noise of one group's gradient"}
    values = [
        {"panel": title, "arm": row["arm"], "value": row[name], "first": row is rows[0]}
        for name, title in titles.items()
        for row in rows
        if row[name] is not None
    ]
    axis = {"labelFontSize": 12, "labelColor": "var(--ink)", "labelLimit": 200, "ticks": False, "domain": False}
    colour = {"condition": {"test": "datum.first", "value": "var(--zero)"}, "value": "var(--accent)"}
    value = number("value", axis={"tickCount": 5})
    bar = layer("bar", looks={"height": {"band": 0.5}}, x=value, color=colour, tooltip=hover(arm="", value=".2f"))
    shared = {"y": word("arm", axis=axis)}
    size: Spec = {"width": 300, "height": {"step": 26}}
    return panels(values, titles.values(), [bar], columns=2, own="x", left=20, encoding=shared, **size)


def alphas(table: Table, arms: Mapping[str, tuple[float, str]]) -> Spec:
    """One panel a metric: score over alpha, a line an aggregation, every seed a dot. `arms`: (alpha, aggregation)."""
    rows = [
        {**row, "alpha": alpha, "aggregation": how}
        for arm, (alpha, how) in arms.items()
        for row in _scores(table, [arm])
    ]
    steps = sorted({alpha for alpha, _ in arms.values()})
    across = number("alpha", "alpha", scale={"domain": [0, 1]}, axis={"values": steps, "labelExpr": "datum.value"})
    level: Spec = {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    hows = list(dict.fromkeys(how for _, how in arms.values()))
    colour = word(
        "aggregation", scale={"domain": hows, "range": list(ARM_COLOURS[: len(hows)])}, legend={"orient": "top"}
    )
    tips = hover(arm="", seed="", alpha="~g", score=".1f")
    layers = [
        layer("line", looks={"strokeWidth": 2}, y=number("score", aggregate="mean", **level)),
        layer("point", looks={"filled": True, "size": 36, "opacity": 0.8}, y=number("score", **level), tooltip=tips),
    ]
    shared = {"x": across, "color": colour}
    return panels(rows, PANELS.values(), layers, columns=len(PANELS), own="y", width=208, height=160, encoding=shared)
