"""Judging: from trajectories to the evidence that rewards are made of."""

from turnwise.judging.base import Grade, Judge, Verdict, abstentions
from turnwise.judging.build import VERDICTS, build_judge, open_verdicts
from turnwise.judging.cache import VerdictCache
from turnwise.judging.evidence import collect_evidence, wanted
from turnwise.judging.rules import RuleJudge

__all__ = [
    "VERDICTS",
    "Grade",
    "Judge",
    "RuleJudge",
    "Verdict",
    "VerdictCache",
    "abstentions",
    "build_judge",
    "collect_evidence",
    "open_verdicts",
    "wanted",
]
