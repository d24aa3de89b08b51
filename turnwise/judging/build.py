"""From the configuration to judges and the cache of their verdicts."""

from collections.abc import Callable
from pathlib import Path

from turnwise import config
from turnwise.judging.base import Judge
from turnwise.judging.cache import VerdictCache
from turnwise.judging.remote import RemoteJudge
from turnwise.judging.rules import RuleJudge
from turnwise.judging.spending import Spending
from turnwise.judging.strict import StrictJudge

VERDICTS = Path("state/verdicts.sqlite")
"""The cache that all stages and profiles share."""
RULES: dict[str, Callable[[int], Judge]] = {"rule": RuleJudge, "strict": StrictJudge}
"""Kind in `params.yaml` -> the judge of so many levels; `openai` needs more than that."""


def open_verdicts(judges: config.Judges, path: Path = VERDICTS) -> VerdictCache:
    """The cache, with the configured limits of abstention."""
    return VerdictCache(path, abstain=judges.abstain, max_abstained=judges.max_abstained)


def build_judge(spec: config.JudgeSpec, judges: config.Judges | None = None, path: Path = VERDICTS) -> Judge:
    """The judge of the configuration; `openai` finds server and budget in `judges` and books its calls at `path`."""
    if spec.kind != "openai":
        return RULES[spec.kind](spec.levels)
    if judges is None:
        raise ValueError("a judge of kind openai needs the section that holds its server")
    return RemoteJudge(spec, judges.servers[spec.server], Spending(path, judges.budget))
