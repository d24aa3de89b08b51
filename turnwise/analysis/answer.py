"""The report's answer in words, made of the numbers: what was measured, whatever the paper says."""

from collections.abc import Mapping
from typing import Any

from turnwise.analysis.ablation import METRICS
from turnwise.analysis.cells import SFT
from turnwise.analysis.published import published
from turnwise.analysis.tabular import fewer, number
from turnwise.config import Params


def percent(share: float | None, digits: int = 1) -> str:
    """A share 0..1 as a percentage; a dash of nothing."""
    return "\N{EN DASH}" if share is None else f"{100 * share:.{digits}f} %"


def effect_sentence(table: Mapping[str, Any], main: str) -> str:
    """What the main arm changed against the reference arm, and which changes the seeds can tell from none."""
    reference, n = table["reference"], len(table["seeds"])
    if reference is None or main == reference:
        arms = ", ".join(f"`{arm}`" for arm in table["arms"])
        return f"This run has no arms to compare: it needs `grpo` and one with turn credit, and has {arms}."
    differences = {METRICS[name]: entry["difference"] for name, entry in table["arms"][main]["metrics"].items()}
    entries = {metric: change for metric, change in differences.items() if change["n"]}
    if not entries:
        return f"No metric was scored for both `{main}` and `{reference}`."
    changes = [f"{metric.label} by {_points(change)}{fewer(change, n)}" for metric, change in entries.items()]
    seeds = f"{n} seeds" if n > 1 else "one seed"
    return f"Against `{reference}`, over {seeds}, `{main}` changed {_listed(changes)}: {_verdict(entries, n)}."


def _points(change: Mapping[str, Any]) -> str:
    if not change["interval"]:
        return f"{number(change['mean'], signed=True)} points"
    low, high = (number(bound, signed=True) for bound in change["interval"])
    return f"{number(change['mean'], signed=True)} points (95 % interval {low} to {high})"


def _verdict(entries: Mapping[Any, Mapping[str, Any]], n: int) -> str:
    if n == 1:
        return "one seed cannot tell a difference from chance"
    clear = {metric: change["mean"] * metric.better for metric, change in entries.items() if excludes_zero(change)}
    better = [metric.label for metric, gain in clear.items() if gain > 0]
    worse = [metric.label for metric, gain in clear.items() if gain < 0]
    parts = [f"better in {_listed(better)}"] * bool(better) + [f"worse in {_listed(worse)}"] * bool(worse)
    rest = len(entries) - len(clear)
    unclear = f"{'no' if rest == len(entries) else 'in the rest no'} difference that {n} seeds tell from chance"
    return ", ".join([*parts, *[unclear] * bool(rest)])


def excludes_zero(change: Mapping[str, Any] | None) -> bool:
    """Whether the interval of a difference lies on one side of zero."""
    return change is not None and change["interval"] is not None and change["interval"][0] * change["interval"][1] > 0


def credit_sentence(flips: Mapping[str, Any], repeats: Mapping[str, Any]) -> str:
    """What turn-level credit changed in the training signal of the main arm, with the paper's shares in brackets."""
    main, paper, paper_repeats = flips["main"], flips["published"], repeats["published"]
    counts, replies = flips["arms"][main]["pooled"], repeats["arms"][main]["pooled"]
    if not counts["decisions"]:
        return f"Every group that `{main}` sampled had equal rewards: there was no advantage of either kind to compare."
    flipped = (
        f"Of the {counts['decisions']:,} decisions that `{main}` trained on, {percent(counts['flip_share'], 2)} had another "
        f"sign under turn-level credit than under one advantage a trajectory (the paper: {percent(paper['flip_share'], 2)}), "
        f"{percent(counts['mixed_share'], 2)} of the trajectories held both signs ({percent(paper['mixed_share'], 2)})"
    )
    if not replies["replies"]:
        return f"{flipped}; no reply was judged repeated."
    return (
        f"{flipped}, and of the {replies['replies']:,} replies judged repeated {percent(replies['negative_global'])} had a "
        f"negative advantage under GRPO's rule and {percent(replies['negative_turn'])} under TurnWise's "
        f"({percent(paper_repeats['negative_global'])} and {percent(paper_repeats['negative_turn'])})."
    )


def agreement_sentence(table: Mapping[str, Any], params: Params) -> str | None:
    """How many of the paper's differences to GRPO have the same sign here; None where it has none to compare."""
    if table["reference"] is None:
        return None
    base = published(params.arms[table["reference"]])
    pairs = [
        (name, arm, entry["published"] - base[name], entry["difference"])
        for arm, row in table["arms"].items()
        if arm != SFT
        for name, entry in row["metrics"].items()
        if entry["difference"] and None not in (entry["difference"]["mean"], entry["published"], base[name])
    ]
    if not pairs:
        return None
    same = [pair for pair in pairs if pair[2] * pair[3]["mean"] > 0]
    against = [pair for pair in pairs if pair[2] * pair[3]["mean"] < 0 and excludes_zero(pair[3])]
    sure = sum(excludes_zero(pair[3]) for pair in same)
    contrary = _listed([f"{METRICS[name].label} of `{arm}`" for name, arm, *_ in against])
    opposite = f"the opposite, just as clearly: {contrary}" if against else "none is clearly the opposite"
    return (
        f"The same sign as in the paper: {len(same)} of its {len(pairs)} differences between an arm and GRPO (chance alone "
        f"gives about half), {sure} of them with an interval that leaves out zero; {opposite}."
    )


def _listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
