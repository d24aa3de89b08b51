"""From judged trajectories to swept groups and their advantages; the sweep stage and RL share it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turnwise import config
from turnwise.credit import alpha_at, anchors, estimators, keywords
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.records import Evidence, Float, Group, Trajectory
from turnwise.rewards import Reward, sweep_batch
from turnwise.tables import decision_columns


@dataclass(frozen=True)
class Swept:
    """One group: what was done, what is known of it, and its prefix scores."""

    episode: Episode
    trajectories: tuple[Trajectory, ...]
    evidence: tuple[Evidence, ...]
    group: Group

    @classmethod
    def of(
        cls, episode: Episode, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], group: Group
    ) -> "Swept":
        """With the anchors of `group`, which its trajectories tell."""
        tokens = [[action.tokens for action in one.actions] for one in trajectories]
        return cls(episode, tuple(trajectories), tuple(evidence), replace(group, anchor=anchors(tokens)))


def complete(
    abstain: str, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
) -> tuple[list[Trajectory], list[Evidence]]:
    """Those that enter group statistics, by the policy `judge.abstain`, in order; both come in the same order.

    `drop_trajectory`: without trajectories with a missing verdict, and without those that are then alone in their group.
    Any other policy: all.
    """
    kept = list(zip(trajectories, evidence, strict=True))
    if abstain == "drop_trajectory":
        kept = [(one, facts) for one, facts in kept if not facts.abstained.any()]
        sizes = Counter(one.episode for one, _ in kept)
        kept = [(one, facts) for one, facts in kept if sizes[one.episode] > 1]
    return [one for one, _ in kept], [facts for _, facts in kept]


def sweep_groups(
    reward: Reward, episodes: Mapping[str, Episode], trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
) -> list[Swept]:
    """Swept groups in the order in which their episodes first appear; evidence stands in the order of the trajectories.

    Raises UserError where they do not belong together.
    """
    ran = [(one.episode, one.index) for one in trajectories]
    if ran != [(one.episode, one.index) for one in evidence] or not {name for name, _ in ran} <= episodes.keys():
        raise UserError("trajectories, evidence and episodes do not belong together; run `dvc repro` to make them anew")
    by_episode: dict[str, list[int]] = {}
    for i, trajectory in enumerate(trajectories):
        by_episode.setdefault(trajectory.episode, []).append(i)
    groups = [(episodes[name], [evidence[i] for i in members]) for name, members in by_episode.items()]
    scored = zip(groups, by_episode.values(), sweep_batch(reward, groups), strict=True)
    return [
        Swept.of(episode, [trajectories[i] for i in members], facts, group)
        for (episode, facts), members, group in scored
    ]


@dataclass(frozen=True)
class Advantages:
    """A_global [G], A_turn [G, T] (alpha = 1) and what the arm learns from [G, T] (None for the SFT roll-outs)."""

    global_: Float
    turn: Float
    used: Float | None
    live: bool
    """False: dropped for zero spread, no gradient."""


def advantages(group: Group, credit: config.Credit, arm: config.Arm | None = None, alpha: float = 0.0) -> Advantages:
    """Both advantages of a group by the experiment's statistics, and the arm's own at its present alpha."""
    statistics = credit.model_dump()
    rules = estimators()
    turn = rules["turnwise"](group, alpha=1.0, **statistics)
    grpo = rules["grpo"](group, **statistics)
    used = None
    if arm:
        settings = {**statistics, "alpha": alpha, "gamma": arm.gamma, "turn_weight": arm.turn_weight}
        rule = rules[arm.credit]
        used = rule(group, **{name: settings[name] for name in keywords(rule)}).turn
    return Advantages(grpo.turn[:, 0], turn.turn, used, bool(np.all(turn.live)))


def arm_alpha(arm: config.Arm, rl: config.Rl, update: int) -> float:
    """The arm's alpha at an update (1-based): linear warm-up over the first `rl.alpha_warmup` of the updates."""
    return alpha_at(update, rl.updates, rl.alpha_warmup, arm.alpha)


def decisions(update: int, swept: Swept, credit: Advantages) -> dict[str, Any]:
    """Columns of the decisions table for one swept group."""
    return decision_columns(
        update,
        swept.episode,
        swept.trajectories,
        swept.evidence,
        swept.group,
        advantage_global=credit.global_,
        advantage_turn=credit.turn,
        advantage_used=credit.used,
        live=credit.live,
    )
