"""`turnwise eval`: run the benchmarks, and score predictions that anyone made."""

from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from turnwise.cli import eval_inputs as inputs
from turnwise.cli.settings import SETTINGS
from turnwise.errors import UserError

evaluation = typer.Typer(
    help="Run benchmarks of streaming video, and score predictions: docs/benchmarks.md has the formats and the numbers.",
    **SETTINGS,
)


class Name(StrEnum):
    """The benchmarks."""

    proactivevideoqa = "proactivevideoqa"
    ovo_timing = "ovo_timing"
    ovo_bench = "ovo_bench"
    streamingbench = "streamingbench"


class Mode(StrEnum):
    """Who decides when something is said."""

    push = "push"
    poll = "poll"


class Events(StrEnum):
    """When events are due."""

    released = "released"
    start = "start"
    end = "end"
    probe = "probe"


class Matching(StrEnum):
    """How events and replies pair up."""

    maximum = "maximum"
    first = "first"


Benchmark = Annotated[Name, typer.Option(help="What is measured.", show_default=False)]
Annotations = Annotated[
    list[Path],
    typer.Option(help="Official annotation: a file, or the folder that holds it. May be repeated.", show_default=False),
]
Predictions = Annotated[
    list[Path],
    typer.Option(help="Predictions: a file, or a folder of them. May be repeated.", show_default=False),
]
Omega = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="proactivevideoqa: 0 counts time in full, 1 only the last answer.", show_default="0.5"
    ),
]
Tolerance = Annotated[
    float | None, typer.Option(min=0, help="Seconds off that are still in time, inclusive.", show_default="2")
]
EventRule = Annotated[
    Events | None, typer.Option(help="ovo_timing: when events are due.", show_default="released: start + 2 s")
]
MatchingRule = Annotated[
    Matching | None, typer.Option(help="ovo_timing: how events and replies pair up.", show_default="maximum")
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="The first so many items of each subset only; the result is marked partial.")
]
Training = Annotated[
    list[Path] | None, typer.Option(help="Records that the policy was trained on, to be checked for shared videos.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the whole result here.")]


@evaluation.command()
def infer(
    benchmark: Benchmark,
    annotations: Annotations,
    model: Annotated[str, typer.Option(help="Directory or hub id of a Qwen2.5-VL or Qwen3-VL.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Predictions file; gone on with where it is there.", show_default=False)],
    videos: Annotated[
        Path | None, typer.Option(help="Folder that video paths are relative to.", show_default="the annotation's")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="streamingbench's Proactive Output: the policy decides, or is asked each second.")
    ] = Mode.push,
    context: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds of video shown before a question that is asked at once.",
            show_default="60, and all of it for ovo_bench",
        ),
    ] = None,
    limit: Limit = None,
    training: Training = None,
) -> None:
    """Stream a benchmark through a policy, greedily, and write what it says.

    Grid, pixels of a frame, dtype, action protocol, token caps and batch come from `params.yaml`, and are written into
    the predictions file. A killed run goes on where it was; predictions of another model or protocol are never mixed in.

    Examples:

    - `turnwise eval infer --benchmark ovo_timing --annotations data/benchmarks/ovobench --model runs/turnwise/0/model
      --out predictions/ovo_timing.jsonl`

    - `turnwise eval infer --benchmark streamingbench --annotations questions_proactive.json --videos /data/sb --mode poll
      --limit 10 --model Qwen/Qwen2.5-VL-3B-Instruct --out po.jsonl`
    """
    from turnwise.cli.eval_inference import run_inference
    from turnwise.config import read_params

    module, params = _module(benchmark), read_params()
    loaded = inputs.load_annotations(module, annotations, {})
    inputs.tell_shared(loaded, training, videos)
    run_inference(module, loaded, params, model, out, videos, mode.value, context, limit)


@evaluation.command()
def score(
    benchmark: Benchmark,
    annotations: Annotations,
    predictions: Predictions,
    judge: Annotated[
        str | None,
        typer.Option(help="proactivevideoqa: the judge, by its name in `params.yaml`.", show_default="judge.eval"),
    ] = None,
    omega: Omega = None,
    tolerance: Tolerance = None,
    events: EventRule = None,
    matching: MatchingRule = None,
    limit: Limit = None,
    training: Training = None,
    json: Json = None,
) -> None:
    """Score predictions: our own, a ProactiveVideoQA submission, or OVO-Bench's result files.

    Items without a prediction are left out, counted, and make the result partial.

    Examples:

    - `turnwise eval score --benchmark ovo_timing --annotations ovo_bench_new.json --predictions mine.jsonl
      --json mine.json`

    - `turnwise eval score --benchmark ovo_bench --annotations ovo_bench_new.json --predictions results/QWen2VL_7B`

    - `turnwise eval score --benchmark proactivevideoqa --annotations WEB/anno.json --predictions submission.jsonl
      --judge judge.eval`
    """
    from turnwise.benchmarks.scoring import first_of_each, result_of
    from turnwise.cli.eval_tables import print_result

    module = _module(benchmark)
    settings = inputs.settings_of(
        module, {"omega": omega, "tolerance": tolerance, "events": events, "matching": matching}
    )
    loaded = inputs.load_annotations(module, annotations, settings)
    read = inputs.read_checked(predictions, benchmark.value, loaded)
    items = [item for item in first_of_each(loaded, limit) if item.key in read.replies]
    if not items:
        raise UserError("--predictions: not one is for an item of the annotation; `turnwise eval validate` says more")
    judged, verdict = inputs.judged(benchmark.value, judge, items, read.replies)
    settings |= judged
    result = result_of(module, loaded, items, read.replies, inputs.scorer_settings(settings), verdict)
    result |= inputs.provenance(module, loaded, settings)
    result["predictions"] = {"files": [str(path) for path in read.files], "notes": read.notes}
    result["protocol"]["inference"] = read.headers[0]["protocol"] if read.headers else None
    result["shared_videos"] = inputs.tell_shared(loaded, training, None)
    print_result(module, result)
    inputs.write_result(json, result)


@evaluation.command()
def validate(
    file: Annotated[list[Path], typer.Argument(help="Predictions: files, or folders of them.", show_default=False)],
    benchmark: Benchmark,
    annotations: Annotations,
) -> None:
    """Check predictions that someone else made: ids, duplicates, times, types. Says every fault; exits with 1 on any.

    Example: `turnwise eval validate submission.jsonl --benchmark proactivevideoqa --annotations WEB/anno.json`
    """
    from turnwise.benchmarks.predictions import read_predictions

    loaded = inputs.load_annotations(_module(benchmark), annotations, {})
    read = read_predictions(file, benchmark.value, loaded.items)
    for kind, texts in (("fault", read.faults), ("note", read.notes)):
        for text in texts:
            print(f"{kind}: {text}")
    missing = read.missing()
    if missing:
        print(f"note: {len(missing)} of {len(loaded.items)} items have no prediction: {inputs.some_of(missing)}")
    print(f"{len(read.replies)} of {len(loaded.items)} items; {len(read.faults)} faults, {len(read.notes)} notes")
    if read.faults:
        raise typer.Exit(1)


@evaluation.command()
def blind(
    benchmark: Benchmark,
    annotations: Annotations,
    omega: Omega = None,
    tolerance: Tolerance = None,
    events: EventRule = None,
    matching: MatchingRule = None,
    json: Json = None,
) -> None:
    """Score what never looks: silence, metronomes, one reply at a fixed delay, constant answers.

    Example: `turnwise eval blind --benchmark ovo_timing --annotations ovo_bench_new.json`
    """
    from turnwise.benchmarks.scoring import blind_rows
    from turnwise.cli.eval_tables import print_blind

    module = _module(benchmark)
    settings = inputs.settings_of(
        module, {"omega": omega, "tolerance": tolerance, "events": events, "matching": matching}
    )
    loaded = inputs.load_annotations(module, annotations, settings)
    rows = blind_rows(module, loaded.items, inputs.scorer_settings(settings))
    print_blind(module, rows)
    if benchmark == Name.proactivevideoqa:
        settings["judge"] = "none: what a blind row says is worth the lowest level"
    inputs.write_result(json, {"benchmark": module.NAME, "blind": rows, **inputs.provenance(module, loaded, settings)})


@evaluation.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Result of `turnwise eval score --json`.", show_default=False)],
    second: Annotated[Path, typer.Argument(help="Another, of the same benchmark.", show_default=False)],
    json: Json = None,
) -> None:
    """Test whether two results differ: paired on the items that both scored, by video.

    Example: `turnwise eval compare grpo.json turnwise.json`
    """
    from turnwise.benchmarks.scoring import compare_results, comparison_record

    found, unpaired = compare_results(first, second)
    low, high = found.interval or (float("nan"), float("nan"))
    print(f"{found.first:8.2f}  {first}\n{found.second:8.2f}  {second}")
    print(f"{found.difference:+8.2f}  difference; 95 % interval {low:+.2f} to {high:+.2f}; p = {found.p:.4f}")
    print(f"{found.items} items of {found.videos} videos that both scored; {unpaired} that only one did")
    inputs.write_result(json, comparison_record(found, unpaired))


def _module(name: Name) -> ModuleType:
    from turnwise.benchmarks.suite import BENCHMARKS

    return BENCHMARKS[name.value]
