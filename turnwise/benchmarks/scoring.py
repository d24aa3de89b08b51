"""The result of scoring predictions: the scores, and all that is needed to judge them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from turnwise.benchmarks import blind, proactivevideoqa
from turnwise.benchmarks.items import Item, Loaded, Predictions, Result
from turnwise.benchmarks.reading import read_json_object
from turnwise.benchmarks.statistics import Comparison, Part, compare, interval, parts_of
from turnwise.benchmarks.suite import benchmark as benchmark_of
from turnwise.errors import UserError
from turnwise.judging import Grade, Verdict

OMEGAS = (0.0, 0.5, 1.0)
"""PAUC is shown at these, beside the headline's."""
Verdicts = Callable[[Grade], Verdict]


def first_of_each(loaded: Loaded[Any], limit: int | None) -> list[Item]:
    """The first `limit` items of each subset; all of them for None."""
    seen: Counter[str] = Counter()
    chosen = []
    for item in loaded.items:
        seen[item.subset] += 1
        if limit is None or seen[item.subset] <= limit:
            chosen.append(item)
    return chosen


def result_of(
    benchmark: ModuleType,
    loaded: Loaded[Any],
    items: Sequence[Any],
    predictions: Predictions,
    settings: Mapping[str, Any],
    verdict: Verdicts | None = None,
) -> dict[str, Any]:
    """The scores of predictions with counts, intervals, blind rows and samples, as `turnwise eval score` writes them.

    `expected` counts all that was loaded, so it may be more than `scored`, and `partial` says so.

    Args:
        items: those that are scored; each has a prediction.
        settings: the keywords of the benchmark's scorer.
        verdict: the judgement of each grade that ProactiveVideoQA needs.
    """
    judged: dict[str, Any] = {} if verdict is None else {"verdict": verdict}
    result = benchmark.score(items, predictions, **settings, **judged)
    parts = parts_of(benchmark, result.samples)
    metrics = _expecting(result.metrics, loaded.items)
    intervals = interval(benchmark, parts)
    subsets = {name: part | {"interval": intervals[name]} for name, part in metrics["subsets"].items()}
    if verdict is not None and benchmark is proactivevideoqa:
        told = [{**settings, **judged, "omega": omega} for omega in OMEGAS]
        scores = [benchmark.score(items, predictions, **one).metrics["score"] for one in told]
        metrics["omegas"] = {f"{omega:g}": score for omega, score in zip(OMEGAS, scores, strict=True)}
    return {
        "benchmark": benchmark.NAME,
        **metrics,
        "interval": intervals["score"],
        "partial": metrics["scored"] < metrics["expected"],
        "subsets": subsets,
        "blind": blind_rows(benchmark, items, settings),
        "samples": _samples(result, parts),
    }


def _expecting(metrics: dict[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """Metrics with the counts of all usable items as `expected`."""
    units: Counter[str] = Counter()
    for item in items:
        units[item.subset] += item.units
    subsets = {name: part | {"expected": units[name]} for name, part in metrics["subsets"].items()}
    return metrics | {"expected": units.total(), "subsets": subsets}


def blind_rows(
    benchmark: ModuleType, items: Sequence[Item], settings: Mapping[str, Any]
) -> dict[str, dict[str, float | None]]:
    """Scores, percent, of what never looks, on the same items: `score` and each subset's, by the name of the row."""
    judged = {"verdict": blind.worthless} if benchmark is proactivevideoqa else {}

    def scores(predictions: Predictions) -> dict[str, float | None]:
        metrics = benchmark.score(items, predictions, **settings, **judged).metrics
        return {"score": metrics["score"], **{name: part["score"] for name, part in metrics["subsets"].items()}}

    return {name: scores(predictions) for name, predictions in blind.rows(benchmark, items).items()}


def _samples(result: Result, parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {**part._asdict(), "score": sample.score, "replies": sample.replies, "detail": sample.detail}
        for sample, part in zip(result.samples, parts, strict=True)
    ]


def compare_results(first: Path, second: Path) -> tuple[Comparison, int]:
    """Compare two results of `turnwise eval score` on the items that both scored; also how many only one did.

    Raises UserError where they are no such results, or not of one benchmark, annotation and way of scoring.
    """
    a, b = (_result(path) for path in (first, second))
    for (name, one), other in zip(_scored_how(a).items(), _scored_how(b).values(), strict=True):
        if one != other:
            raise UserError(f"{first} and {second}: {name}: differ ({one} and {other}); score both the same way")
    sides = [{row["item"]: Part(*(row[name] for name in Part._fields)) for row in x["samples"]} for x in (a, b)]
    both = [key for key in sides[0] if key in sides[1]]
    found = compare(benchmark_of(a["benchmark"]), *([side[key] for key in both] for side in sides)) if both else None
    if found is None:
        raise UserError(f"{first} and {second}: no headline score on the {len(both)} items that both scored")
    return found, len(sides[0].keys() ^ sides[1].keys())


def _result(path: Path) -> dict[str, Any]:
    result = read_json_object(path, "name a result that `turnwise eval score --json` wrote")
    if not {"benchmark", "annotations", "protocol", "samples"} <= result.keys():
        raise UserError(f"{path}: is no result of `turnwise eval score --json`; score the predictions first")
    return result


def _scored_how(result: Mapping[str, Any]) -> dict[str, Any]:
    """What two results must share to be compared."""
    return {
        "benchmark": result["benchmark"],
        "annotations": result["annotations"]["fingerprint"],
        "scoring": result["protocol"]["scoring"],
    }


def comparison_record(comparison: Comparison, unpaired: int) -> dict[str, Any]:
    """A comparison as JSON holds it."""
    return {**asdict(comparison), "unpaired": unpaired}
