"""What a missing verdict does to group statistics and to learning."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from turnwise.config import Arm
from turnwise.errors import UserError
from turnwise.judging import RuleJudge, Verdict, VerdictCache
from turnwise.records import Evidence, Trajectory
from turnwise.tables import read_table
from turnwise.training.rl import Epoch
from turnwise.training.sweeping import complete

ARM = Arm(credit="turnwise", alpha=1.0, aggregation="turn-mean")


class Moody(RuleJudge):
    """The rule judge, silent about replies that hold one of some words."""

    def __init__(self, *words):
        super().__init__(5)
        self.name, self.words = "moody", words

    async def grade(self, item):
        moody = any(word in item.reply for word in self.words)
        return Verdict(None, "in a mood") if moody else await super().grade(item)


def judged(episode, *abstained):
    facts = np.zeros(1)
    evidence = [
        Evidence(episode, i, ("reply",), facts[None], facts, facts > 0, facts.astype(int), np.array([missing]))
        for i, missing in enumerate(abstained)
    ]
    return [Trajectory(episode, one.index, ()) for one in evidence], evidence


def test_whole_trajectories_leave_and_no_group_of_one_stays():
    pairs = [judged("a", False, True, False), judged("b", True, False), judged("c", False, False)]
    trajectories, evidence = ([one for pair in pairs for one in pair[side]] for side in (0, 1))
    assert complete("drop_point", trajectories, evidence) == (trajectories, evidence)
    assert complete("stop", trajectories, evidence) == (trajectories, evidence)
    kept, facts = complete("drop_trajectory", trajectories, evidence)
    assert [(one.episode, one.index) for one in kept] == [("a", 0), ("a", 2), ("c", 0), ("c", 1)]
    assert [(one.episode, one.index) for one in facts] == [("a", 0), ("a", 2), ("c", 0), ("c", 1)]


@pytest.fixture
def moody(experiment, tmp_path):
    """(policy of abstention, words) -> the experiment with that judge."""

    def build(abstain, *words, most=1.0):
        judges = experiment.params.judge.model_copy(update={"abstain": abstain})
        params = experiment.params.model_copy(update={"judge": judges})
        cache = VerdictCache(tmp_path / "moody.sqlite", abstain=abstain, max_abstained=most)
        return replace(experiment, params=params, judge=Moody(*words), verdicts=cache)

    return build


def epoch(experiment, episodes, dev, tmp_path):
    """An epoch whose update 1 was judged like the others."""
    size = experiment.params.rl.groups_per_update
    run = Epoch(experiment, ARM, 0, episodes, dev, [], tmp_path / experiment.params.judge.abstain)
    first = run.order[:size]
    rolled = experiment.rollout(first, experiment.params.rollout.group_size, 1.0, 1)
    kept = complete(experiment.params.judge.abstain, rolled, experiment.evidence(first, rolled))
    run.first = experiment.sweep(first, *kept) if kept[0] else []
    return run


def test_dropped_trajectories_are_counted_and_not_learned_from(moody, episodes, dev, tmp_path):
    experiment = moody("drop_trajectory", "red")
    run = epoch(experiment, episodes, dev, tmp_path)
    updates = list(islice(run.updates(), 2))
    dropped = [update.figures["dropped_trajectories"] for update in updates]
    assert sum(dropped) > 0
    assert all(update.figures["abstained_share"] == 0 for update in updates)
    for path, missing in zip(run.table_files("decisions"), dropped, strict=False):
        rows = read_table("decisions", path).group_by(["episode", "trajectory"]).aggregate([]).num_rows
        assert rows == 8 - missing


def test_dropped_points_leave_their_trajectories(moody, episodes, dev, tmp_path):
    updates = list(islice(epoch(moody("drop_point", "red", "blue"), episodes, dev, tmp_path).updates(), 2))
    assert all(update.figures["dropped_trajectories"] == 0 for update in updates)
    assert sum(update.figures["abstained_share"] for update in updates) > 0


def test_a_run_stops_before_it_learns_from_noise(moody, episodes, dev, tmp_path):
    with pytest.raises(UserError, match=r"judge\.abstain: stop: moody abstained from"):
        epoch(moody("stop", "red", "blue"), episodes, dev, tmp_path)
    with pytest.raises(UserError, match=r"judge\.max_abstained: 0\.01: moody abstained from"):
        epoch(moody("drop_point", "red", "blue", most=0.01), episodes, dev, tmp_path)
    with pytest.raises(UserError, match="drop_trajectory left no group of update 1 to learn from"):
        next(epoch(moody("drop_trajectory", ""), episodes, dev, tmp_path).updates())
