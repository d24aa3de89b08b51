"""What another judge would have changed: verdicts, rewards, ranks in a group, and signs of advantages.

Trajectories are judged again by both judges (the cache answers for one that has judged them before) and swept with the
same reward. A missing verdict drops its point here, never its trajectory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise import config
from turnwise.credit import estimators
from turnwise.judging.agreement import agreement
from turnwise.judging.base import Grade, Judge, Verdict
from turnwise.judging.cache import VerdictCache
from turnwise.judging.evidence import collect_evidence
from turnwise.judging.stored import Rolled, distinct
from turnwise.records import Float, Group, flipped
from turnwise.rewards import Reward, sweep_batch


@dataclass(frozen=True)
class _Known:
    """Verdicts that were asked for before."""

    verdicts: Mapping[Grade, Verdict]

    def grade_all(self, _: Judge, items: Sequence[Grade]) -> list[Verdict]:
        return [self.verdicts[item] for item in items]


@dataclass(frozen=True)
class _Side:
    """One judge's view of the groups: a reward a trajectory [G], and both advantages [G] and [G, T]."""

    rewards: list[Float]
    global_: list[Float]
    turn: list[Float]
    live: list[bool]


def compare(
    judges: tuple[Judge, Judge],
    cache: VerdictCache,
    reward: Reward,
    credit: config.Credit,
    levels: int,
    groups: Sequence[Rolled],
) -> dict[str, Any]:
    """Both judges on the same groups, in plain numbers; pairs stand in the order of `judges`.

    `level`, `repeat` (and `dialogue`, where the reward asks for it): agreement on the distinct items. `reward`,
    `ranks`, `signs`: how rewards, the order of the trajectories of a group, and the signs of advantages move.
    """
    items = distinct(levels, groups, reward.asks)
    known = [_Known(dict(zip(items, cache.grade_all(judge, items), strict=True))) for judge in judges]
    a, b = (_side(judge, asked, reward, credit, levels, groups) for judge, asked in zip(judges, known, strict=True))
    return {
        "judges": [judge.name for judge in judges],
        "versions": [judge.version for judge in judges],
        "levels": levels,
        **{kind: _agreement([item for item in items if item.kind == kind], known) for kind in _kinds(items)},
        "reward": _rewards(a, b),
        "ranks": _ranks(a, b),
        "signs": _signs(a, b),
    }


def _kinds(items: Sequence[Grade]) -> dict[str, None]:
    return dict.fromkeys(item.kind for item in items)


def _side(
    judge: Judge,
    known: _Known,
    reward: Reward,
    credit: config.Credit,
    levels: int,
    groups: Sequence[Rolled],
) -> _Side:
    judged = [(e, collect_evidence(judge, known, levels, {e.id: e}, group, reward.asks)) for e, group in groups]
    swept = sweep_batch(reward, judged)
    advantages = [_advantages(group, credit) for group in swept]
    return _Side([group.rewards for group in swept], *map(list, zip(*advantages, strict=True)))


def _advantages(group: Group, credit: config.Credit) -> tuple[Float, Float, bool]:
    statistics, rules = credit.model_dump(), estimators()
    turn = rules["turnwise"](group, alpha=1.0, **statistics)
    return rules["grpo"](group, **statistics).turn[:, 0], turn.turn, bool(np.all(turn.live))


def _agreement(items: Sequence[Grade], known: Sequence[_Known]) -> dict[str, Any]:
    one, other = ([side.verdicts[item].score for item in items] for side in known)
    return agreement(one, other, items[0].levels)


def _rewards(a: _Side, b: _Side) -> dict[str, Any]:
    one, other = np.concatenate(a.rewards), np.concatenate(b.rewards)
    varied = one.std() > 0 and other.std() > 0
    return {
        "trajectories": len(one),
        "means": [float(one.mean()), float(other.mean())],
        "mean_change": float((other - one).mean()),
        "mean_absolute_change": float(np.abs(other - one).mean()),
        "correlation": float(np.corrcoef(one, other)[0, 1]) if varied else None,
    }


def _ranks(a: _Side, b: _Side) -> dict[str, Any]:
    """Over all pairs of trajectories of a group: does the better one stay the better one? And the best of a group?"""
    before, after = _orders(a.rewards), _orders(b.rewards)
    pairs = len(before)
    best = [one[np.argmax(other)] >= one.max() for one, other in zip(_rounded(a), _rounded(b), strict=True)]
    return {
        "groups": len(best),
        "pairs": pairs,
        "kept": int((before == after).sum()) / pairs,
        "reversed": int((before * after < 0).sum()) / pairs,
        "tied_under_one": int(((before == 0) != (after == 0)).sum()) / pairs,
        "best_kept": float(np.mean(best)),
    }


def _rounded(side: _Side) -> list[Float]:
    return [np.round(rewards, 9) for rewards in side.rewards]


def _orders(groups: Sequence[Float]) -> Float:
    """Sign of the difference of rewards, for each pair of each group; 0 is a tie."""
    parts = []
    for rewards in groups:
        i, j = np.triu_indices(len(rewards), 1)
        parts.append(np.sign(np.round(rewards[i] - rewards[j], 9)))
    return np.concatenate(parts)


def _signs(a: _Side, b: _Side) -> dict[str, Any]:
    """How many advantages change their sign (a zero never does), and how many decisions flip under each judge."""
    global_ = np.concatenate([x * y for x, y in zip(a.global_, b.global_, strict=True)])
    turn = np.concatenate([(x * y).ravel() for x, y in zip(a.turn, b.turn, strict=True)])
    return {
        "trajectories": len(global_),
        "global_changed": float((global_ < 0).mean()),
        "decisions": len(turn),
        "turn_changed": float((turn < 0).mean()),
        "flip_shares": [_flip_share(side) for side in (a, b)],
        "dropped_groups": [side.live.count(False) for side in (a, b)],
    }


def _flip_share(side: _Side) -> float | None:
    """Share of the decisions of live groups whose turn advantage has another sign than the global one."""
    groups = zip(side.global_, side.turn, side.live, strict=True)
    flips = [flipped(global_, turn).ravel() for global_, turn, live in groups if live]
    return float(np.concatenate(flips).mean()) if flips else None
