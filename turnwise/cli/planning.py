"""How many calls of a judge each stage would make: what is rolled out is counted, the rest estimated from it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import UserError

if TYPE_CHECKING:
    from turnwise.config import JudgeSpec, Params
    from turnwise.judging import Grade, Judge, VerdictCache

HEAD = ("stage", "judge", "verdicts", "calls", "tokens sent", "money")
COUNTED = ("verdicts", "calls", "tokens", "money")
CHARACTERS = 4
"""Characters of a token, roughly."""


@dataclass(frozen=True)
class Cost:
    """What judging comes to."""

    verdicts: float
    calls: float
    tokens: float
    money: float
    about: bool = False
    """Estimated."""

    def times(self, n: float) -> "Cost":
        """As much as n of these, roughly."""
        return Cost(n * self.verdicts, n * self.calls, n * self.tokens, n * self.money, about=True)

    def cells(self) -> list[str]:
        """As text."""
        counts = [f"{round(n):,}" for n in (self.verdicts, self.calls, self.tokens)]
        return [f"about {count}" if self.about and count != "0" else count for count in counts] + [f"{self.money:.2f}"]


@dataclass(frozen=True)
class _Asked:
    """One of the two judges of an experiment, and what it was asked before."""

    params: "Params"
    spec: "JudgeSpec"
    judge: "Judge"
    cache: "VerdictCache"

    def cost(self, items: "list[Grade]", *, afresh: bool = False) -> Cost:
        """What these items come to; `afresh`: if nothing were in the cache."""
        from turnwise.judging.rubrics import messages

        missing = items if afresh else self.cache.missing(self.judge, items)
        if self.spec.kind != "openai":
            return Cost(len(items), len(missing), 0.0, 0.0)
        tokens = sum(len(part["content"]) for item in missing for part in messages(item)) / CHARACTERS
        price = self.params.judge.budget.prices.get(self.spec.model)
        money = (price.prompt * tokens + price.completion * self.spec.max_tokens * len(missing)) / 1e6 if price else 0.0
        return Cost(len(items), len(missing), tokens, money)


def plan(params: "Params") -> list[str]:
    """Lines of a table, one a stage that judges. Raises UserError where nothing is rolled out."""
    rows = list(_costs(params))
    known = [cost for _, _, cost in rows if cost]
    if not known:
        raise UserError("runs: nothing is rolled out; run `dvc repro rollout` first, it needs no judge")
    verdicts, calls, tokens, money = (sum(getattr(cost, name) for cost in known) for name in COUNTED)
    total = Cost(verdicts, calls, tokens, money, about=any(cost.about for cost in known))
    unknown = ["?"] * (len(HEAD) - 2)
    lines = [(stage, judge, *(cost.cells() if cost else unknown)) for stage, judge, cost in rows]
    return _aligned([HEAD, *lines, ("all that is known", "", *total.cells())])


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.ljust, str.ljust, *[str.rjust] * (len(widths) - 2)]
    return ["  ".join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)) for row in rows]


def _costs(params: "Params") -> Iterator[tuple[str, str, Cost | None]]:
    """Stage, judge, and what it comes to; None where that is not known before its roll-outs."""
    from turnwise.judging import VERDICTS, VerdictCache, build_judge

    cache, specs = VerdictCache(VERDICTS), (params.judge.train, params.judge.eval)
    train, evaluate = (_Asked(params, spec, build_judge(spec, params.judge), cache) for spec in specs)
    for seed in params.seeds:
        now, each = _judge_stage(train, seed)
        yield f"judge@{seed}", train.judge.name, now
        for arm in params.arms:
            yield f"rl@{arm}-{seed}", train.judge.name, each.times(_trajectories(params)) if each else None
    for arm in ("sft", *params.arms):
        for seed in params.seeds:
            stage = f"evaluate_sft@{seed}" if arm == "sft" else f"evaluate@{arm}-{seed}"
            yield stage, evaluate.judge.name, _evaluate_stage(evaluate, arm, seed)


def _judge_stage(train: _Asked, seed: int) -> tuple[Cost | None, Cost | None]:
    """What the stage comes to, and what a trajectory of it would with an empty cache."""
    from turnwise.judging.stored import distinct, stored_groups
    from turnwise.rewards import build_reward

    if not Path(f"runs/sft/{seed}/trajectories.parquet").is_file():
        return None, None
    groups = stored_groups(train.params, "sft", seed)
    items = distinct(train.spec.levels, groups, build_reward(train.params.reward, train.spec.levels).asks)
    each = train.cost(items, afresh=True).times(1 / sum(len(group) for _, group in groups))
    return train.cost(items), each


def _trajectories(params: "Params") -> int:
    """How many an arm judges by itself: all updates but the first, and one an episode at each validation."""
    rl = params.rl
    validations = {rl.updates, *(u for u in range(1, rl.updates + 1) if u == 1 or u % rl.validate_every == 0)}
    rolled = (rl.updates - 1) * rl.groups_per_update * params.rollout.group_size
    return rolled + len(validations) * len(_lines(Path("data/dev.jsonl")))


def _evaluate_stage(evaluate: _Asked, arm: str, seed: int) -> Cost | None:
    """Counted from the predictions of an evaluation that has run."""
    from turnwise.benchmarks import proactivevideoqa
    from turnwise.benchmarks.items import Reply

    path = Path(f"runs/{arm}/{seed}/eval/predictions.jsonl")
    if not path.is_file():
        return None
    loaded = proactivevideoqa.load([Path("data/benchmarks") / proactivevideoqa.FOLDER])
    said = [line for line in _lines(path) if line["benchmark"] == proactivevideoqa.NAME]
    replies = {f"{x['subset']}/{x['item']}": [Reply(r["time"], r["text"]) for r in x["replies"]] for x in said}
    return evaluate.cost(proactivevideoqa.grades(loaded.items, replies))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
