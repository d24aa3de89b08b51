"""Judging: from trajectories to the evidence that rewards are made of."""

from turnwise.judging.base import Grade, Judge, Verdict
from turnwise.judging.cache import VerdictCache
from turnwise.judging.evidence import collect_evidence
from turnwise.judging.rules import RuleJudge, build_judge

__all__ = ["Grade", "Judge", "RuleJudge", "Verdict", "VerdictCache", "build_judge", "collect_evidence"]
