"""The evaluation of one policy on the three benchmarks: predictions, samples, and metrics with all that qualifies them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from turnwise import config
from turnwise.benchmarks import blind, proactivevideoqa, streamingbench
from turnwise.benchmarks.items import Predictions, Result
from turnwise.benchmarks.overlap import Training
from turnwise.benchmarks.ovo import timing
from turnwise.benchmarks.runner import MODES, Prepared, infer_all, prepare, write_predictions
from turnwise.benchmarks.statistics import interval, parts_of
from turnwise.benchmarks.suite import benchmark as benchmark_of
from turnwise.files import fingerprint, write_json
from turnwise.judging import Grade, Judge, Verdict, VerdictCache, abstentions
from turnwise.tables import write_table

if TYPE_CHECKING:
    from turnwise.policy.sampler import Sampler

BENCHMARKS = (proactivevideoqa, timing, streamingbench)
HEADLINES = {"pauc": proactivevideoqa.NAME, "timing_f1": timing.NAME, "streamingbench": streamingbench.NAME}
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
    training: Sequence[Path] = (),
    *,
    state: Path,
) -> dict[str, Any]:
    """Run and score a policy; write `predictions.jsonl`, `samples.parquet`, `metrics.json` and `scores.json` below `out`.

    `scores.json` holds the headlines of `metrics.json` alone.

    Args:
        sampler_for: gives the policy's sampler for a folder that clip paths are relative to.
        judge: grades replies of ProactiveVideoQA; its verdicts are kept in `cache`.
        root: holds the folders `proactivevideoqa`, `ovobench` and `streamingbench` in their official layouts.
        describe: what is evaluated (model, prompt, context): a part of the protocol record.
        training: files of records that the policy learned from; videos that they share with a benchmark are named.
        state: keeps the predictions of finished batches, which are not asked for again.

    Returns the metrics; scores are percent 0..100, and null where nothing could be scored. Raises UserError for a bad
    annotation or clip, before anything is rolled out.
    """
    prepared = [_prepared(benchmark, root / benchmark.FOLDER, config, stream) for benchmark in BENCHMARKS]
    told = settings(config, drop_items=cache.abstain == "drop_trajectory")
    protocol = protocol_record(config, stream, judge.name, describe, told)
    predictions = infer_all(sampler_for, prepared, config.batch, state)
    verdicts = _verdicts(judge, cache, prepared, predictions)
    results = score_all(prepared, predictions, verdicts.__getitem__, told)
    scores, learned = _headlines(results), Training.of(training)
    metrics = {
        **scores,
        "benchmarks": {run.name: _qualified(run, results[run.name], learned) for run in prepared},
        "blind": blind_scores(prepared, told, config.metronome),
        "judge": judge.name,
        "abstentions": {"verdicts": len(verdicts), "missing": abstentions(verdicts.values())},
        "protocol": protocol,
    }
    write_predictions(out / "predictions.jsonl", prepared, predictions, fingerprint(protocol["inference"]))
    write_table("samples", sample_columns(results), out / "samples.parquet")
    write_json(out / "scores.json", scores)
    write_json(out / "metrics.json", metrics)
    return metrics


def _prepared(benchmark: ModuleType, root: Path, config: config.Evaluate, stream: config.Stream) -> Prepared:
    options = {"events": config.events} if benchmark is timing else {}
    return prepare(benchmark, benchmark.load([root], **options), root, stream)


def _qualified(run: Prepared, result: Result, training: Training) -> dict[str, Any]:
    """A benchmark's metrics with their interval, its records, and the videos that it shares with training."""
    benchmark = benchmark_of(run.name)
    return {
        **result.metrics,
        "interval": interval(benchmark, parts_of(benchmark, result.samples))["score"],
        "records": run.loaded.report(),
        "shared_videos": training.shared([item.clip for item in run.loaded.items], run.root),
    }


def settings(config: config.Evaluate, drop_items: bool) -> dict[str, dict[str, Any]]:
    """What each benchmark's scorer is told, by its name."""
    return {
        proactivevideoqa.NAME: {"omega": config.omega, "drop_items": drop_items},
        timing.NAME: {"tolerance": config.tolerance, "matching": config.matching},
        streamingbench.NAME: {"tolerance": config.tolerance},
    }


def protocol_record(
    config: config.Evaluate,
    stream: config.Stream,
    judge: str,
    describe: dict[str, Any],
    told: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """All choices that a score depends on, with the scorers' settings. Predictions depend on `inference` only."""
    return {
        "inference": {
            "policy": describe,
            "streaming": MODES["push"],
            "sampling": "greedy",
            "grid": {"frame_interval": stream.frame_interval, "frames_per_turn": stream.frames_per_turn},
            "rtvu_context": streamingbench.CONTEXT,
            "po_grace": streamingbench.GRACE,
        },
        proactivevideoqa.NAME: proactivevideoqa.protocol(judge=judge, **told[proactivevideoqa.NAME]),
        timing.NAME: timing.protocol(events=config.events, **told[timing.NAME]),
        streamingbench.NAME: streamingbench.protocol(**told[streamingbench.NAME]),
        "blind": {"metronome": config.metronome, "said": blind.SAID, "letter": blind.LETTER},
    }


def _verdicts(
    judge: Judge, cache: VerdictCache, prepared: Sequence[Prepared], predictions: Mapping[str, Predictions]
) -> dict[Grade, Verdict]:
    items = next(run.loaded.items for run in prepared if run.name == proactivevideoqa.NAME)
    wanted = proactivevideoqa.grades(items, predictions[proactivevideoqa.NAME])
    return dict(zip(wanted, cache.grade_all(judge, wanted), strict=True))


def score_all(
    prepared: Sequence[Prepared],
    predictions: Mapping[str, Predictions],
    verdict: Callable[[Grade], Verdict],
    told: Mapping[str, dict[str, Any]],
) -> dict[str, Result]:
    """Every benchmark's result, by its name, with the scorers' settings."""
    judged = {proactivevideoqa.NAME: {"verdict": verdict}}
    return {
        run.name: benchmark_of(run.name).score(
            run.loaded.items, predictions[run.name], **told[run.name], **judged.get(run.name, {})
        )
        for run in prepared
    }


def blind_scores(
    prepared: Sequence[Prepared], told: Mapping[str, dict[str, Any]], period: float
) -> dict[str, dict[str, float | None]]:
    """Headline numbers, percent, of a policy that says nothing and of a metronome, on the same items."""
    choices = {item.key for run in prepared for item in run.loaded.items if item.asked is not None}
    rows = {
        "silent": {run.name: blind.silent(run.loaded.items) for run in prepared},
        "metronome": {run.name: blind.metronome(run.episodes, period, choices) for run in prepared},
    }
    return {
        name: _headlines(score_all(prepared, predictions, blind.worthless, told)) for name, predictions in rows.items()
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
