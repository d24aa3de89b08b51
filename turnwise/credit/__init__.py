"""Credit: from the prefix scores of a group to one advantage a decision."""

from turnwise.credit.base import Credit, Estimator, estimators, register
from turnwise.credit.grpo import grpo
from turnwise.credit.turnwise import alpha_at, turnwise

__all__ = ["Credit", "Estimator", "alpha_at", "estimators", "grpo", "register", "turnwise"]
