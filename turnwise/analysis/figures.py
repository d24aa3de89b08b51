"""The figures, as SVG files that are the same bytes for the same numbers: no dates, fixed ids, text drawn as paths.

Ink and grid have fixed colours (INK, GRID) on a transparent ground, so that the report can hand them to its theme.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from turnwise.analysis.ablation import METRICS
from turnwise.analysis.cells import SFT, values
from turnwise.files import replacing

INK, MUTED, GRID = "#1f2329", "#6b7280", "#d5d9df"
NEGATIVE, ZERO, POSITIVE = "#d55e00", "#9aa1ab", "#2f7fc1"
SIGNS = {"negative": NEGATIVE, "zero": ZERO, "positive": POSITIVE}
COLOURS = ("#2f7fc1", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#56b4e9", "#8c6bb1", "#a6761d")
"""Arms in order; told apart with the common colour-vision deficiencies (after Okabe and Ito). `sft` is ZERO's grey."""
MARKERS = "os^Dvph*"

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "turnwise",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.transparent": True,
}

CURVES = {
    "reward": "Reward of the sampled trajectories",
    "dev_reward": "Reward on the development split, greedy",
    "dev_pauc": "PAUC term on the development split, greedy",
    "reply_rate": "Decisions that are not silent",
    "repeat_share": "Replies judged repeated",
    "flip_share": "Decisions whose advantage changes sign",
}


def draw(path: Path, size: tuple[float, float], plot: Callable[[Figure], None]) -> None:
    """Run `plot` on an empty figure of `size` inches in the house style and write it as SVG, by rename."""
    with mpl.rc_context(STYLE), replacing(path) as scratch:
        figure = Figure(figsize=size, layout="constrained")
        plot(figure)
        figure.savefig(scratch, format="svg", metadata={"Date": None, "Creator": None})


def look(arm: str, arms: Sequence[str]) -> tuple[str, str]:
    """Colour and marker of an arm: by its place among `arms`; the supervised start is grey."""
    if arm == SFT:
        return ZERO, "o"
    place = list(arms).index(arm)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]


def advantages(decisions: pa.Table, flip_share: float | None) -> Callable[[Figure], None]:
    """Hexbin of A_global against A_turn over the decisions of live groups, with the identity line and the flip share.

    Flips lie in the shaded quadrants.
    """
    live = decisions.filter(decisions["live"])
    x, y = values(live, "advantage_global"), values(live, "advantage_turn")
    reach = 1.05 * max(1.0, np.abs(x).max(initial=0), np.abs(y).max(initial=0))

    def plot(figure: Figure) -> None:
        axes = figure.add_subplot()
        for left, bottom in ((-reach, 0), (0, -reach)):
            axes.add_patch(mpl.patches.Rectangle((left, bottom), reach, reach, color=NEGATIVE, alpha=0.07, lw=0))
        shades = LinearSegmentedColormap.from_list("counts", [(0.18, 0.50, 0.76, a) for a in (0.15, 1.0)], N=24)
        if len(x):
            area = (-reach, reach, -reach, reach)
            bins = axes.hexbin(x, y, gridsize=36, extent=area, mincnt=1, norm=LogNorm(), cmap=shades, lw=0)
            bar = figure.colorbar(bins, ax=axes, label="decisions a cell", format="%d", shrink=0.7, pad=0.02)
            bar.outline.set_visible(False)
        axes.plot([-reach, reach], [-reach, reach], color=INK, lw=1, ls="--")
        axes.annotate("unchanged\n", (0.84 * reach, 0.86 * reach), rotation=45, ha="center", va="center", fontsize=8)
        axes.axhline(0, color=MUTED, lw=0.8)
        axes.axvline(0, color=MUTED, lw=0.8)
        shown = "no decisions" if flip_share is None else f"{100 * flip_share:.2f} % change sign"
        axes.text(0.03, 0.96, shown, transform=axes.transAxes, va="top", fontsize=12, fontweight="bold", color=NEGATIVE)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title="Advantage of each decision")
        axes.set(xlabel="global advantage (GRPO: one a trajectory)", ylabel="turn advantage (one a decision)")

    return plot


def repeats(counts: Mapping[str, Any], paper: Mapping[str, Any]) -> Callable[[Figure], None]:
    """Stacked bars: replies judged repeated by the sign of their advantage under each rule, the paper's share marked."""
    total = counts["replies"]

    def plot(figure: Figure) -> None:
        axes = figure.add_subplot()
        for row, rule in enumerate(("global", "turn")):
            negative, zero = (counts[f"{sign}_{rule}_count"] for sign in ("negative", "zero"))
            parts = zip((negative, zero, total - negative - zero), SIGNS.values(), strict=True)
            _stack(axes, row, [(count / max(1, total), colour) for count, colour in parts])
            axes.plot(paper[f"negative_{rule}"], row + 0.37, marker="^", ms=6, color=INK, ls="")
        axes.text(paper["negative_turn"], 1.47, "the paper's share (published)", ha="center", va="top", fontsize=8)
        axes.set(xlim=(0, 1), ylim=(1.78, -0.45), title=f"Advantage of the {total:,} replies judged repeated")
        axes.set_yticks([0, 1], ["global\n(GRPO)", "turn\n(TurnWise)"])
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.grid(False)
        axes.set_xlabel("share of the repeated replies")
        handles = [mpl.patches.Patch(color=colour, label=sign) for sign, colour in SIGNS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)

    return plot


def _stack(axes: Axes, row: int, parts: Sequence[tuple[float, str]]) -> None:
    left = 0.0
    for width, colour in parts:
        axes.barh(row, width, left=left, color=colour, height=0.62)
        if width >= 0.07:
            shown = f"{100 * width:.1f} %"
            axes.text(left + width / 2, row, shown, ha="center", va="center", color="white", fontweight="bold")
        left += width


def curves(table: Mapping[str, Mapping[int, Mapping[str, np.ndarray]]]) -> Callable[[Figure], None]:
    """Learning curves, `table[arm][seed][column]` [U]: a thin line each seed, a thick one for the mean over seeds."""

    def plot(figure: Figure) -> None:
        panels = figure.subplots(2, 3, sharex=True).flat
        for axes, (column, title) in zip(panels, CURVES.items(), strict=True):
            for arm, seeds in table.items():
                lines = [(seed["update"], seed[column]) for seed in seeds.values()]
                _curve(axes, lines, *look(arm, list(table)))
            axes.set_title(title, fontsize=8.5)
        for axes in figure.axes[3:]:
            axes.set_xlabel("update")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        looks = {arm: look(arm, list(table)) for arm in table}
        handles = [mpl.lines.Line2D([], [], color=c, marker=m, label=arm) for arm, (c, m) in looks.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))

    return plot


def _curve(axes: Axes, lines: Sequence[tuple[np.ndarray, np.ndarray]], colour: str, marker: str) -> None:
    for update, seed in lines:
        known = ~np.isnan(seed)
        axes.plot(update[known], seed[known], color=colour, lw=0.7, alpha=0.4)
    mean = np.mean([seed for _, seed in lines], axis=0)
    known = ~np.isnan(mean)
    every = max(1, int(known.sum()) // 6)
    axes.plot(lines[0][0][known], mean[known], color=colour, lw=1.8, marker=marker, ms=3.5, markevery=every)


def ablation_dots(table: Mapping[str, Any]) -> Callable[[Figure], None]:
    """One panel a metric, one row an arm: every seed a dot, the mean a bar, its t-interval a line; blind baselines dotted."""
    arms = list(table["arms"])

    def plot(figure: Figure) -> None:
        panels = figure.subplots(1, len(METRICS), sharey=True)
        for axes, (name, metric) in zip(panels, METRICS.items(), strict=True):
            for row, arm in enumerate(arms):
                _dots(axes, row, table["arms"][arm]["metrics"][name], *look(arm, arms[1:]))
            for baseline, style in zip(table["blind"], (":", "-."), strict=False):
                if (value := table["blind"][baseline].get(name)) is not None:
                    axes.axvline(value, color=MUTED, ls=style, lw=1, label=baseline)
            low, high = axes.get_xlim()
            axes.set_xlim(max(low, -2), min(high, 102))
            axes.set_title(f"{metric.label} {metric.arrow}")
            axes.set_xlabel("%")
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(arms)), arms)
        panels[0].set_ylim(len(arms) - 0.4, -0.6)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, [f"blind: {label}" for label in labels], loc="outside lower center", ncols=2)

    return plot


def _dots(axes: Axes, row: int, entry: Mapping[str, Any], colour: str, marker: str) -> None:
    seeds = [value for value in entry["seeds"].values() if value is not None]
    if entry["interval"]:
        axes.plot(entry["interval"], [row, row], color=colour, lw=2, alpha=0.55, solid_capstyle="round")
    axes.plot(seeds, [row] * len(seeds), ls="", marker=marker, ms=5.5, color=colour, markeredgecolor="white", mew=0.7)
    if entry["mean"] is not None:
        axes.plot([entry["mean"]] * 2, [row - 0.28, row + 0.28], color=INK, lw=1.6)
