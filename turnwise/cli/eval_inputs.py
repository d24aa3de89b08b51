"""What the commands of `turnwise eval` read: settings, annotations, predictions, a judge's verdicts."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from turnwise.errors import UserError

if TYPE_CHECKING:
    from turnwise.benchmarks.items import Loaded, Predictions
    from turnwise.benchmarks.predictions import Read
    from turnwise.benchmarks.scoring import Verdicts

DEFAULTS = {"omega": 0.5, "tolerance": 2.0, "events": "released", "matching": "maximum"}
SHOWN = 5


def settings_of(module: ModuleType, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a benchmark's score, from what was given and the defaults. Raises UserError for one it lacks."""
    known = inspect.signature(module.protocol).parameters.keys()
    for name, value in given.items():
        if value is not None and name not in known:
            raise UserError(f"--{name}: {module.NAME} has no such setting; leave it out")
    return {
        name: str(value) if isinstance(value := given[name], StrEnum) else DEFAULTS[name] if value is None else value
        for name in given
        if name in known
    }


def scorer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the scorer is told; the rule of events belongs to the loader, and the judge gave its verdicts."""
    return {name: value for name, value in settings.items() if name not in ("events", "judge")}


def load_annotations(module: ModuleType, places: Sequence[Path], settings: Mapping[str, Any]) -> "Loaded[Any]":
    """The annotation's items; says which records were refused."""
    options = {"events": settings["events"]} if "events" in settings else {}
    loaded = module.load(places, **options)
    report = loaded.report()
    if loaded.refused:
        names = some_of([f"{record} ({reason})" for record, reason in loaded.refused])
        note(f"{report['found']} records, {report['usable']} usable; refused: {names}")
    return loaded


def read_checked(paths: Sequence[Path], benchmark: str, loaded: "Loaded[Any]") -> "Read":
    """Predictions without a fault. Raises UserError for the first fault."""
    from turnwise.benchmarks.predictions import read_predictions

    read = read_predictions(paths, benchmark, loaded.items)
    if read.faults:
        more = f" (and {len(read.faults) - 1} more)" if len(read.faults) > 1 else ""
        raise UserError(f"{read.faults[0]}{more}; `turnwise eval validate` lists every fault")
    if read.notes:
        note(
            f"{len(read.notes)} notes on the predictions (`turnwise eval validate` lists them): {some_of(read.notes, 1)}"
        )
    return read


def judged(
    benchmark: str, field: str | None, items: Sequence[Any], predictions: "Predictions"
) -> "tuple[dict[str, Any], Verdicts | None]":
    """Of ProactiveVideoQA: what `params.yaml` says of its judge, and the verdicts that the score needs; else nothing.

    Raises UserError for a field that is no judge, or where none is needed.
    """
    from turnwise.benchmarks import proactivevideoqa
    from turnwise.config import BENCHMARK_LEVELS, read_params
    from turnwise.judging import build_judge, open_verdicts

    if benchmark != proactivevideoqa.NAME:
        if field:
            raise UserError(f"--judge: {benchmark} is scored without a judge; leave it out")
        return {}, None
    judges, field = read_params().judge, field or "judge.eval"
    known = {f"judge.{name}": spec for name, spec in judges.named.items() if spec.levels == BENCHMARK_LEVELS}
    if field not in known:
        fit = f"{', '.join(known)}, the judges of params.yaml with {BENCHMARK_LEVELS} levels"
        raise UserError(f"--judge: {field!r} is none of {fit}")
    judge, cache = build_judge(known[field], judges), open_verdicts(judges)
    grades = proactivevideoqa.grades(items, predictions)
    if missing := cache.missing(judge, grades):
        note(f"{judge.name} is asked for {len(missing)} of {len(grades)} verdicts; they are kept as they come")
    verdicts = dict(zip(grades, cache.grade_all(judge, grades), strict=True))
    return {"judge": judge.name, "drop_items": judges.abstain == "drop_trajectory"}, verdicts.__getitem__


def provenance(module: ModuleType, loaded: "Loaded[Any]", settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was scored against, and how: `settings` are all that the benchmark's protocol takes."""
    from turnwise.files import fingerprint

    files = {"files": [str(path) for path in loaded.files], "fingerprint": fingerprint(None, *loaded.files)}
    return {"annotations": files | loaded.report(), "protocol": {"scoring": module.protocol(**settings)}}


def tell_shared(loaded: "Loaded[Any]", training: Sequence[Path] | None, root: Path | None) -> list[Any] | None:
    """Videos shared with the training records; None where none were given."""
    if not training:
        return None
    from turnwise.benchmarks.overlap import Training

    shared = Training.of(training).shared([item.clip for item in loaded.items], root)
    names = some_of([f"{row['video']} ({row['because']} as {row['training']})" for row in shared])
    note(f"{len(shared)} videos are also in the training data" + (f": {names}" if shared else ""))
    return shared


def some_of(texts: Sequence[str], most: int = SHOWN) -> str:
    """The first texts, and how many more there are."""
    more = f", and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"


def write_result(path: Path | None, value: Any) -> None:
    """Write a result as JSON, where a path is given."""
    if path:
        from turnwise.files import write_json

        write_json(path, value)
        note(f"{path} is written")


def note(text: str) -> None:
    """Say something beside the result, on standard error."""
    print(text, file=sys.stderr, flush=True)
