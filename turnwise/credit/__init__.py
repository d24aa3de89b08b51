"""Credit: from the prefix scores of a group to one advantage a decision."""

from turnwise.credit.base import Credit, Estimator, estimators, keywords, register
from turnwise.credit.diagnostics import advantage_figures, clipped_by_spread
from turnwise.credit.difference import difference
from turnwise.credit.dr_grpo import dr_grpo
from turnwise.credit.gdpo import gdpo
from turnwise.credit.gigpo import anchors, gigpo
from turnwise.credit.grpo import grpo
from turnwise.credit.mt_grpo import mt_grpo
from turnwise.credit.return_to_go import return_to_go
from turnwise.credit.rloo import rloo
from turnwise.credit.turnwise import alpha_at, turnwise

__all__ = [
    "Credit",
    "Estimator",
    "advantage_figures",
    "alpha_at",
    "anchors",
    "clipped_by_spread",
    "difference",
    "dr_grpo",
    "estimators",
    "gdpo",
    "gigpo",
    "grpo",
    "keywords",
    "mt_grpo",
    "register",
    "return_to_go",
    "rloo",
    "turnwise",
]
