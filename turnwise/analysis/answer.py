"""The report's answer in words, made of the numbers: what was measured, whatever the paper says.

Sentences cite the SQL of their numbers (`citing`).
"""

from collections.abc import Mapping
from typing import Any

from turnwise.analysis.ablation import METRICS, Metric
from turnwise.analysis.cells import SFT
from turnwise.analysis.citing import cite
from turnwise.analysis.published import published
from turnwise.analysis.tabular import fewer, number
from turnwise.config import Params

FEW = 5
"""Up to so many seeds the page says how little they tell."""


def percent(share: float | None, digits: int = 1) -> str:
    """A share 0..1 as a percentage; a dash of nothing."""
    return "\N{EN DASH}" if share is None else f"{100 * share:.{digits}f} %"


def effect_sentence(table: Mapping[str, Any], main: str) -> str:
    """What the main arm changed against the reference arm, and which changes the seeds can tell from none."""
    reference, n = table["reference"], len(table["seeds"])
    if reference is None or main == reference:
        arms = ", ".join(f"`{arm}`" for arm in table["arms"])
        return f"This run has no arms to compare: it needs `grpo` and one with turn credit, and has {arms}."
    entries = _differences(table, main)
    if not entries:
        return f"No metric was scored for both `{main}` and `{reference}`."
    changes = [
        f"{METRICS[name].label} by {_points(change, name, main)}{fewer(change, n)}" for name, change in entries.items()
    ]
    how = f" (over {n} seeds, paired, with 95 % intervals)" if n > 1 else ""
    return f"{_verdict(entries, n)} against `{reference}`, `{main}` changed {_listed(changes)}{how}."


def _differences(table: Mapping[str, Any], arm: str) -> dict[str, Mapping[str, Any]]:
    metrics = table["arms"][arm]["metrics"]
    return {name: entry["difference"] for name, entry in metrics.items() if entry["difference"]["n"]}


def _points(change: Mapping[str, Any], metric: str, arm: str) -> str:
    def cited(column: str, value: float) -> str:
        return cite(number(value, signed=True), "differences", column, value, arm=arm, metric=metric)

    mean = f"{cited('mean', change['mean'])} points"
    if not change["interval"]:
        return mean
    low, high = change["interval"]
    return f"{mean} [{cited('low', low)} to {cited('high', high)}]"


def _verdict(entries: Mapping[str, Mapping[str, Any]], n: int) -> str:
    if n == 1:
        return "One seed cannot tell a difference from chance:"
    clear = {METRICS[name]: change["mean"] for name, change in entries.items() if excludes_zero(change)}
    better = _listed([metric.label for metric, mean in clear.items() if mean * metric.better > 0])
    worse = _listed([metric.label for metric, mean in clear.items() if mean * metric.better < 0])
    rest = ", and no difference that the seeds tell from chance in the rest" if len(clear) < len(entries) else ""
    if better and worse:
        return f"Better in {better}, worse in {worse}{rest}:"
    if better or worse:
        return f"{f'Yes, better in {better}' if better else f'No, worse in {worse}'}{rest}:"
    return f"No difference that {n} seeds tell from chance:"


def excludes_zero(change: Mapping[str, Any] | None) -> bool:
    """Whether the interval of a difference lies on one side of zero."""
    return change is not None and change["interval"] is not None and change["interval"][0] * change["interval"][1] > 0


def power_sentence(table: Mapping[str, Any], main: str) -> str | None:
    """How large a change the seeds could have told from none: half the width of the intervals. None with many seeds."""
    n = len(table["seeds"])
    if not 1 < n <= FEW or table["reference"] in (None, main):
        return None
    widths = [
        f"{(change['interval'][1] - change['interval'][0]) / 2:.0f} points of {METRICS[name].label}"
        for name, change in _differences(table, main).items()
        if change["interval"]
    ]
    if not widths:
        return None
    least = _listed(widths, "or")
    return f"{n} seeds tell little: with their spread a change of less than about {least} would not have stood out."


def _listed(items: list[str], word: str = "and") -> str:
    return f" {word} ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def credit_sentence(flips: Mapping[str, Any], repeats: Mapping[str, Any]) -> str:
    """What turn-level credit changed in the training signal of the main arm, with the paper's shares in brackets."""
    main, paper, paper_repeats = flips["main"], flips["published"], repeats["published"]
    counts, replies = flips["arms"][main]["pooled"], repeats["arms"][main]["pooled"]
    if not counts["decisions"]:
        return f"Every group that `{main}` sampled had equal rewards: there was no advantage of either kind to compare."

    def flip(column: str, digits: int = 2) -> str:
        return cite(percent(counts[column], digits), "flips", column, counts[column], arm=main)

    def repeat(column: str) -> str:
        return cite(percent(replies[column]), "repeats", column, replies[column], arm=main)

    decisions = cite(f"{counts['decisions']:,}", "flips", "decisions", counts["decisions"], arm=main)
    flipped = (
        f"Of the {decisions} decisions that `{main}` trained on, {flip('flip_share')} had another "
        f"sign under turn-level credit than under one advantage a trajectory (the paper: {percent(paper['flip_share'], 2)}), "
        f"{flip('mixed_share')} of the trajectories held both signs ({percent(paper['mixed_share'], 2)})"
    )
    if not replies["replies"]:
        return f"{flipped}; no reply was judged repeated."
    judged = cite(f"{replies['replies']:,}", "repeats", "replies", replies["replies"], arm=main)
    return (
        f"{flipped}, and of the {judged} replies judged repeated {repeat('negative_global')} had a "
        f"negative advantage under GRPO's rule and {repeat('negative_turn')} under TurnWise's "
        f"({percent(paper_repeats['negative_global'])} and {percent(paper_repeats['negative_turn'])})."
    )


def agreement_sentence(table: Mapping[str, Any], params: Params) -> str | None:
    """How many of the paper's differences to GRPO have the same sign here; None where it has none to compare."""
    if table["reference"] is None:
        return None
    base = published(params.arms[table["reference"]])
    pairs = [
        (METRICS[name], arm, entry["published"] - base[name], entry["difference"])
        for arm, row in table["arms"].items()
        if arm != SFT
        for name, entry in row["metrics"].items()
        if entry["difference"] and None not in (entry["difference"]["mean"], entry["published"], base[name])
    ]
    if not pairs:
        return None
    same = [pair for pair in pairs if pair[2] * pair[3]["mean"] > 0]
    against = [pair for pair in pairs if pair[2] * pair[3]["mean"] < 0 and excludes_zero(pair[3])]
    return (
        f"The same sign as in the paper: {len(same)} of its {len(pairs)} differences between an arm and GRPO (chance alone "
        f"gives about half), {sum(excludes_zero(pair[3]) for pair in same)} of them with an interval that leaves out zero; "
        f"{_opposite(against)}."
    )


def _opposite(against: list[tuple[Metric, str, float, Any]]) -> str:
    if not against:
        return "none is clearly the opposite"
    return f"the opposite, just as clearly: {_listed([f'{metric.label} of `{arm}`' for metric, arm, *_ in against])}"
