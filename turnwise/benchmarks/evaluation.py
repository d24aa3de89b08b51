"""The evaluation of one policy on the three benchmarks: predictions, samples, and metrics with all that qualifies them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise import config
from turnwise.benchmarks import blind, ovo_timing, proactivevideoqa, streamingbench
from turnwise.benchmarks.items import Predictions, Result
from turnwise.benchmarks.runner import BENCHMARKS, Prepared, infer_all, prepare, write_predictions
from turnwise.config import BENCHMARK_LEVELS
from turnwise.files import fingerprint, write_json
from turnwise.judging import Grade, Judge, Verdict, VerdictCache
from turnwise.tables import write_table

if TYPE_CHECKING:
    from turnwise.policy.sampler import Sampler

HEADLINES = {"pauc": proactivevideoqa.NAME, "timing_f1": ovo_timing.NAME, "streamingbench": streamingbench.NAME}
"""Headline number -> the benchmark whose score it is."""


def evaluate(
    sampler_for: "Callable[[Path], Sampler]",
    judge: Judge,
    cache: VerdictCache,
    config: config.Evaluate,
    stream: config.Stream,
    root: Path,
    out: Path,
    describe: dict[str, Any],
) -> dict[str, Any]:
    """Run and score a policy; write `predictions.jsonl`, `samples.parquet` and `metrics.json` below `out`.

    Args:
        sampler_for: gives the policy's sampler for a folder that clip paths are relative to.
        judge: grades replies of ProactiveVideoQA; its verdicts are kept in `cache`.
        root: holds the folders `proactivevideoqa`, `ovobench` and `streamingbench` in their official layouts.
        describe: what is evaluated (model, prompt, context): a part of the protocol record.

    Returns the metrics; scores are percent 0..100, and null where nothing could be scored. Raises UserError for a bad
    annotation or clip, before anything is rolled out.
    """
    prepared = [prepare(benchmark, root / benchmark.FOLDER, stream) for benchmark in BENCHMARKS]
    protocol = protocol_record(config, stream, judge.name, describe)
    predictions = infer_all(sampler_for, prepared, config.batch)
    results = score_all(prepared, predictions, _verdicts(judge, cache, prepared, predictions), config)
    metrics = {
        **_headlines(results),
        "benchmarks": {run.name: {**results[run.name].metrics, "records": run.loaded.report()} for run in prepared},
        "blind": blind_scores(prepared, config),
        "judge": judge.name,
        "protocol": protocol,
    }
    write_predictions(out / "predictions.jsonl", prepared, predictions, fingerprint(protocol["inference"]))
    write_table("samples", sample_columns(results), out / "samples.parquet")
    write_json(out / "metrics.json", metrics)
    return metrics


def protocol_record(
    config: config.Evaluate, stream: config.Stream, judge: str, describe: dict[str, Any]
) -> dict[str, Any]:
    """All choices that a score depends on. Predictions depend on `inference` only."""
    return {
        "inference": {
            "policy": describe,
            "streaming": "push: the policy decides at each turn",
            "sampling": "greedy",
            "grid": {"frame_interval": stream.frame_interval, "frames_per_turn": stream.frames_per_turn},
            "rtvu_context": streamingbench.CONTEXT,
            "po_grace": streamingbench.GRACE,
        },
        "proactivevideoqa": {
            "judge": judge,
            "levels": BENCHMARK_LEVELS,
            "judged": "accumulated distinct replies",
            "omega": config.omega,
            "aggregation": "mean over the turns of a subset, plain mean over subsets",
            "repetition": "repeats among replies that are not the first in a window, all subsets together",
        },
        "ovo_timing": {
            "events": "released: clue_time; start + 2 s",
            "matching": "maximum one-to-one",
            "tolerance": config.tolerance,
            "aggregation": "F1 of mean precision and mean recall of a subtask, plain mean over subtasks",
        },
        "streamingbench": {
            "rtvu": "first letter of the reply to the question; silence is wrong",
            "po": "joint: first reply in time and holding the target text",
            "tolerance": config.tolerance,
            "aggregation": "mean of RTVU accuracy and PO joint accuracy, each over questions",
        },
        "blind": {"metronome": config.metronome, "said": blind.SAID, "letter": blind.LETTER},
    }


def _verdicts(
    judge: Judge, cache: VerdictCache, prepared: Sequence[Prepared], predictions: Mapping[str, Predictions]
) -> Callable[[Grade], Verdict]:
    items = next(run.loaded.items for run in prepared if run.name == proactivevideoqa.NAME)
    wanted = proactivevideoqa.grades(items, predictions[proactivevideoqa.NAME])
    return dict(zip(wanted, cache.grade_all(judge, wanted), strict=True)).__getitem__


def score_all(
    prepared: Sequence[Prepared],
    predictions: Mapping[str, Predictions],
    verdict: Callable[[Grade], Verdict],
    config: config.Evaluate,
) -> dict[str, Result]:
    """Every benchmark's result, by its name."""
    arguments: dict[str, dict[str, Any]] = {
        proactivevideoqa.NAME: {"verdict": verdict, "omega": config.omega},
        ovo_timing.NAME: {"tolerance": config.tolerance},
        streamingbench.NAME: {"tolerance": config.tolerance},
    }
    scorers = {benchmark.NAME: benchmark.score for benchmark in BENCHMARKS}
    return {
        run.name: scorers[run.name](run.loaded.items, predictions[run.name], **arguments[run.name]) for run in prepared
    }


def blind_scores(prepared: Sequence[Prepared], config: config.Evaluate) -> dict[str, dict[str, float | None]]:
    """Headline numbers, percent, of a policy that says nothing and of a metronome, on the same items."""
    choices = {
        item.key
        for run in prepared
        if run.name == streamingbench.NAME
        for item in run.loaded.items
        if item.subset == "RTVU"
    }
    rows = {
        "silent": {run.name: blind.silent(run.episodes) for run in prepared},
        "metronome": {run.name: blind.metronome(run.episodes, config.metronome, choices) for run in prepared},
    }
    return {
        name: _headlines(score_all(prepared, predictions, blind.worthless, config))
        for name, predictions in rows.items()
    }


def _headlines(results: Mapping[str, Result]) -> dict[str, float | None]:
    scores = {headline: results[name].metrics["score"] for headline, name in HEADLINES.items()}
    return scores | {"repetition": results[proactivevideoqa.NAME].metrics["repetition"]}


def sample_columns(results: Mapping[str, Result]) -> dict[str, list[Any]]:
    """Columns of the `samples` table, one row an item."""
    rows = [(name, sample) for name, result in results.items() for sample in result.samples]
    return {
        "benchmark": [name for name, _ in rows],
        "subset": [sample.item.subset for _, sample in rows],
        "item": [sample.item.id for _, sample in rows],
        "query_time": [sample.query_time for _, sample in rows],
        "score": [sample.score for _, sample in rows],
        "scored": [sample.score is not None for _, sample in rows],
        "replies": [sample.replies for _, sample in rows],
        "detail": [json.dumps(sample.detail, ensure_ascii=False) for _, sample in rows],
    }
