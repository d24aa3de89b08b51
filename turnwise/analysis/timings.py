"""Where the time went, from `timings/<stage>/<cell>.jsonl`; outside every promise of identity.

Stages that ran again count once, with their last run; a run that did not end counts for the phases of its updates alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.analysis.cells import SFT
from turnwise.config import Params
from turnwise.timings import Line, read_lines

STAGES = ("data", "sft", "rollout", "judge", "sweep", "rl", "evaluate")
PHASES = ("rollout", "judge", "sweep", "credit", "learn", "validate", "save")
"""What an update of `rl` books, in the order in which it does them."""


@dataclass(frozen=True)
class Stage:
    """A stage's cost: seconds summed over its cells, the largest peak of memory."""

    name: str
    cells: int
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Timings:
    """All stages, and the seconds of each phase of RL's updates over all cells."""

    stages: list[Stage]
    phases: dict[str, float]


def read_timings(folder: Path, params: Params) -> Timings | None:
    """The timings of the cells that `params` names; None where no stage ended. Raises UserError for a damaged file."""
    cells = _cell_names(params)
    stages: list[Stage] = []
    phases: dict[str, float] = {}
    for name in STAGES:
        files = [path for path in sorted((folder / name).glob("*.jsonl")) if path.stem in cells]
        runs = [read_lines(path) for path in files]
        ended = [lines for lines in runs if any("seconds" in line for line in lines)]
        if ended:
            stages.append(_stage(name, ended, params.rl.updates))
        for line in (line for lines in runs for line in _updates(lines, params.rl.updates)):
            for phase in line.keys() - {"update", "total"}:
                phases[phase] = phases.get(phase, 0.0) + line[phase]
    return Timings(stages, dict(sorted(phases.items(), key=lambda phase: -phase[1]))) if stages else None


def _cell_names(params: Params) -> set[str]:
    arms = {f"{arm}-{seed}" for arm in (SFT, *params.arms) for seed in params.seeds}
    return {"data", *map(str, params.seeds), *arms}


def _updates(lines: Sequence[Line], last: int) -> list[Line]:
    """The latest line of each update up to `last`: an earlier, longer epoch may have left more."""
    return list({line["update"]: line for line in lines if line.get("update", last + 1) <= last}.values())


def _stage(name: str, runs: Sequence[Sequence[Line]], last: int) -> Stage:
    whole = [[line for line in lines if "seconds" in line][-1] for lines in runs]
    seconds = sum(
        sum(line["total"] for line in _updates(lines, last)) or ended["seconds"]
        for lines, ended in zip(runs, whole, strict=True)
    )
    return Stage(name, len(runs), seconds, max(line["peak_mb"] for line in whole))
