"""`turnwise judge`: what judging would cost, what another judge would have said, and the cache of verdicts."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli.settings import SETTINGS
from turnwise.errors import UserError

if TYPE_CHECKING:
    from turnwise.config import JudgeSpec, Params
    from turnwise.judging import VerdictCache

judge = typer.Typer(help="What judging would cost, what another judge would have said, past verdicts.", **SETTINGS)
cache = typer.Typer(help="The verdicts that all stages and profiles share.", **SETTINGS)
judge.add_typer(cache, name="cache")

COMPARISONS = Path("state/judges")
Arms = Annotated[list[str] | None, typer.Option("--arm", help="Cells of this arm, all seeds; may be given again.")]


@judge.command("plan")
def plan() -> None:
    """Say how many calls each stage would make, without making one.

    A verdict that is in the cache costs no call. What is not rolled out yet is estimated from the roll-outs of the SFT
    policy and marked `about`. Tokens sent are characters over four; money is what the longest answers would cost.

    Example: `turnwise judge plan`
    """
    from turnwise.cli.planning import plan
    from turnwise.config import read_params

    for line in plan(read_params()):
        print(line)


@judge.command("compare")
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="`train`, `eval`, one of `judge.others`; `rule` or `strict`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other judge, likewise.")],
    arm: Arms = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the numbers go, as JSON.")] = None,
) -> None:
    """Judge stored roll-outs again with two judges: how far they agree, and what it would have changed.

    Both judge by the rubric of `judge.train`. Without --arm: the roll-outs of the SFT policy. The numbers go to
    `state/judges/A--B.json`. A judge that abstains more often than `judge.max_abstained` is not compared.

    Examples:

    - how much hangs on the judge: `turnwise judge compare train strict`

    - with a judge that `judge.others` names `gpt`: `turnwise judge compare train gpt --arm grpo --arm turnwise`
    """
    from turnwise.config import read_params
    from turnwise.files import write_json
    from turnwise.judging import build_judge, open_verdicts
    from turnwise.judging.compare import compare as compared
    from turnwise.judging.stored import stored_groups
    from turnwise.rewards import build_reward

    params = read_params()
    levels = params.judge.train.levels
    judges = (build_judge(_spec(params, a), params.judge), build_judge(_spec(params, b), params.judge))
    cells = [(name, seed) for name in arm or ["sft"] for seed in params.seeds]
    groups = [group for name, seed in cells for group in stored_groups(params, name, seed)]
    reward = build_reward(params.reward, levels)
    numbers = compared(judges, open_verdicts(params.judge), reward, params.credit, levels, groups)
    target = out or COMPARISONS / f"{a}--{b}.json"
    write_json(target, {"cells": [f"{name}-{seed}" for name, seed in cells], **numbers})
    print("\n".join(_comparison(numbers)))
    print(f"{target} has all numbers")


def _spec(params: "Params", name: str) -> "JudgeSpec":
    """The judge of that name in `params.yaml`, or the rule judge of that kind, with the training judge's levels."""
    from turnwise.config import JudgeSpec

    levels = params.judge.train.levels
    if name in params.judge.named:
        return params.judge.named[name].model_copy(update={"levels": levels})
    if name in ("rule", "strict"):
        return JudgeSpec.model_validate({"kind": name, "levels": levels})
    known = ", ".join([*params.judge.named, "rule", "strict"])
    raise UserError(f"params.yaml: judge: there is no judge {name!r}; the judges are {known}")


def _comparison(numbers: Mapping[str, Any]) -> list[str]:
    """The numbers to read, a line or two a part."""
    lines = [f"A {numbers['judges'][0]}, B {numbers['judges'][1]}"]
    for kind in ("level", "repeat", "dialogue"):
        lines += _agreement(kind, numbers[kind]) if kind in numbers else []
    reward, ranks, signs = numbers["reward"], numbers["ranks"], numbers["signs"]
    before, after = reward["means"]
    return [
        *lines,
        f"reward   {before:.3f} -> {after:.3f} over {reward['trajectories']:,} trajectories; each moves by "
        f"{reward['mean_absolute_change']:.3f}, correlation {_number(reward['correlation'])}",
        f"ranks    of {ranks['pairs']:,} pairs in {ranks['groups']:,} groups {_share(ranks['kept'])} stand alike, "
        f"{_share(ranks['reversed'])} the other way round; the best stays best in {_share(ranks['best_kept'])}",
        f"signs    {_share(signs['global_changed'])} of A_global and {_share(signs['turn_changed'])} of A_turn change sign; "
        f"flipped decisions {' -> '.join(map(_share, signs['flip_shares']))}",
    ]


def _agreement(kind: str, entry: Mapping[str, Any]) -> list[str]:
    levels = ", ".join(f"{i}: {_share(share)}" for i, share in enumerate(entry["by_level"]))
    return [
        f"{kind:<8} {_share(entry['agreement'])} of {entry['both']:,} alike, kappa {_number(entry['kappa'])} "
        f"(weighted {_number(entry['weighted_kappa'])}); abstained {' and '.join(map(str, entry['abstained']))}",
        f"         alike by A's score {levels}",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _opened() -> "VerdictCache":
    from turnwise.judging import VERDICTS, VerdictCache

    if not VERDICTS.is_file():
        raise UserError(f"{VERDICTS}: no such file; a stage that judges, or `turnwise judge cache import`, makes it")
    return VerdictCache(VERDICTS)


@cache.command("stats")
def stats() -> None:
    """Say how many verdicts there are by judge, and what judging has cost so far.

    Example: `turnwise judge cache stats`
    """
    from turnwise.config import read_params
    from turnwise.judging.keeping import counts
    from turnwise.judging.spending import Spending

    opened = _opened()
    for version, kinds in counts(opened).items():
        print(f"{version:<40} {sum(kinds.values()):>9,}  {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}")
    spending = Spending(opened.path, read_params().judge.budget)
    for row in spending.rows():
        model, calls, sent, answered = row
        print(
            f"{model}: {calls:,} calls, {sent:,} tokens sent, {answered:,} answered, {spending.money([row]):.2f} money"
        )
    print(f"{opened.path}: {opened.path.stat().st_size / 2**20:.1f} MiB")


@cache.command("export")
def export(out: Annotated[Path, typer.Argument(help="The file to write, JSON Lines.")]) -> None:
    """Write every verdict to a file, for another machine or to read.

    Example: `turnwise judge cache export verdicts.jsonl`
    """
    from turnwise.judging import keeping

    print(f"{out}: {keeping.export(_opened(), out):,} verdicts")


@cache.command("import")
def import_(source: Annotated[Path, typer.Argument(help="A file that `export` wrote.")]) -> None:
    """Add the verdicts of a file; a verdict that is there already stands.

    Example: `turnwise judge cache import verdicts.jsonl`
    """
    from turnwise.judging import VERDICTS, VerdictCache, keeping

    new, seen = keeping.take_in(VerdictCache(VERDICTS), source)
    print(f"{VERDICTS}: {new:,} of {seen:,} verdicts were new")


@cache.command("prune")
def prune(version: Annotated[str, typer.Argument(help="How the judges begin, as `stats` lists them.")]) -> None:
    """Remove the verdicts of judges that are no longer asked.

    Example: `turnwise judge cache prune rule@`
    """
    from turnwise.judging import keeping

    if not version.strip():
        raise UserError("judge cache prune: name the judge, as `turnwise judge cache stats` lists it")
    removed = keeping.prune(_opened(), version)
    print(f"{removed:,} verdicts of judges that begin with {version!r} are gone")
