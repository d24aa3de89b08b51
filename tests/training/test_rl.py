import filecmp
from itertools import combinations
from typing import get_args

import numpy as np
import pytest
import torch

from tasks.rl import swept_of
from turnwise.config import Arm, CreditRule
from turnwise.credit import estimators
from turnwise.errors import UserError
from turnwise.tables import concat, evidence_columns, groups_from, read_table, trajectory_columns, write_table
from turnwise.training.epoch import epoch_order, rollout_seed
from turnwise.training.guards import Diverged
from turnwise.training.rl import TABLES, Epoch
from turnwise.training.sweeping import advantages, arm_alpha, decisions

TURNWISE = Arm(credit="turnwise", alpha=1.0, aggregation="turn-mean")


@pytest.fixture
def swept(experiment, episodes):
    first = epoch_order(episodes, 0)[:2]
    trajectories = experiment.rollout(first, 4, 1.0, rollout_seed(0, 1))
    return experiment.sweep(first, trajectories, experiment.evidence(first, trajectories))


def weights(experiment):
    return {name: p.clone() for name, p in experiment.policy.model.state_dict().items()}


def test_a_stopped_epoch_goes_on_to_the_same_bytes(experiment, episodes, dev, swept, tmp_path):
    start = weights(experiment)
    straight = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path / "straight")
    assert [update.update for update in straight.updates()] == [1, 2, 3]
    expected = weights(experiment)

    experiment.policy.model.load_state_dict(start)
    stopped = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path / "stopped").updates()
    next(stopped)
    experiment.policy.model.load_state_dict(start)
    resumed = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path / "stopped")
    assert [update.update for update in resumed.updates()] == [2, 3]

    assert any(not torch.equal(start[name], expected[name]) for name in start)
    assert all(torch.equal(expected[name], now) for name, now in weights(experiment).items())
    for table in TABLES:
        for a, b in zip(straight.table_files(table), resumed.table_files(table), strict=True):
            assert filecmp.cmp(a, b, shallow=False)
    assert experiment.frames.tower_frames > 0


def test_what_an_update_reports_and_keeps(experiment, episodes, dev, swept, tmp_path):
    epoch = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path)
    first, second, _ = list(epoch.updates())
    assert first.figures["alpha"] == 0.0
    assert second.figures["alpha"] == 1.0
    assert first.figures["reward"] == pytest.approx(np.mean([one.group.rewards for one in swept]))
    assert first.figures["dev_reward"] is not None
    assert second.figures["dev_reward"] is not None
    assert second.seconds.keys() >= {"rollout", "judge", "sweep", "credit", "learn"}
    decisions = read_table("decisions", epoch.table_files("decisions")[0])
    kept = groups_from(decisions, experiment.reward.weights)
    for one in swept:
        group = kept[1, one.episode.id]
        assert np.array_equal(group.scores, one.group.scores)
        assert all(np.array_equal(group.terms[name], one.group.terms[name]) for name in one.group.terms)


def test_an_epoch_too_short_names_the_numbers(experiment, episodes, tmp_path):
    with pytest.raises(UserError, match=r"3 updates of 2 groups need 6 episodes, data/rl\.jsonl has 4"):
        Epoch(experiment, TURNWISE, 0, episodes[:4], [], [], tmp_path)


def test_arms_differ_in_what_they_learn_from_and_in_nothing_else(experiment, swept):
    credit = experiment.params.credit
    for one in swept:
        grpo = advantages(one.group, credit, Arm(credit="grpo"))
        turn = advantages(one.group, credit, TURNWISE, alpha=1.0)
        assert np.array_equal(grpo.global_, turn.global_)
        assert np.array_equal(grpo.turn, turn.turn)
        assert np.array_equal(grpo.used, np.repeat(grpo.global_[:, None], one.episode.turns, axis=1))
        assert np.array_equal(turn.used, turn.turn)
        assert np.array_equal(advantages(one.group, credit, TURNWISE, alpha=0.0).used, grpo.used)


def test_an_arm_may_use_any_rule(experiment, swept):
    assert set(get_args(CreditRule)) == estimators().keys()
    for rule in estimators():
        for one in swept:
            values = advantages(one.group, experiment.params.credit, Arm(credit=rule), alpha=0.5)
            assert values.used.shape == (4, one.episode.turns)
            assert np.isfinite(values.used).all()
            states = [tuple(action.tokens for action in t.actions) for t in one.trajectories]
            for i, j in combinations(range(4), 2):
                same = [states[i][:t] == states[j][:t] for t in range(one.episode.turns)]
                assert (one.group.anchor[i] == one.group.anchor[j]).tolist() == same


def test_every_rule_gives_the_same_for_groups_read_back_from_the_tables(experiment, episodes, swept, tmp_path):
    """Update 1 learns from the groups that the stage `sweep` wrote."""
    credit, weights = experiment.params.credit, experiment.reward.weights
    columns = {
        "trajectories": concat(trajectory_columns(0, one.trajectories) for one in swept),
        "evidence": concat(evidence_columns(0, one.evidence) for one in swept),
        "decisions": concat(decisions(0, one, advantages(one.group, credit)) for one in swept),
    }
    for name, values in columns.items():
        write_table(name, values, tmp_path / f"{name}.parquet")
    for read, one in zip(swept_of(tmp_path, episodes, weights, "drop_point"), swept, strict=True):
        assert read.trajectories == one.trajectories
        for rule in estimators():
            again, before = (advantages(group, credit, Arm(credit=rule), 0.5) for group in (read.group, one.group))
            np.testing.assert_allclose(again.used, before.used, rtol=1e-12, atol=1e-12)


def test_alpha_warms_up_over_the_first_tenth(params):
    rl = params.rl.model_copy(update={"updates": 40})
    assert [arm_alpha(TURNWISE, rl, u) for u in (1, 2, 3, 5, 40)] == [0.0, 0.25, 0.5, 1.0, 1.0]


def test_the_epoch_order_is_the_seeds_own(episodes):
    orders = [[e.id for e in epoch_order(episodes, seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_a_run_that_diverges_stops_and_leaves_its_batch(experiment, episodes, dev, swept, tmp_path):
    """The head's weights overflow in the forward pass: every loss is NaN."""
    epoch = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path / "state")
    epoch.rl = epoch.rl.model_copy(update={"max_skipped": 2})
    with torch.no_grad():
        experiment.policy.model.get_output_embeddings().weight.mul_(1e38)
    with pytest.raises(Diverged, match=r"update \d+: 2 optimizer steps in a row .*diverged"):
        list(epoch.updates())
    batch = read_table("decisions", tmp_path / "state" / "diverged" / "decisions.parquet")
    assert np.isfinite(batch["advantage_used"].to_numpy()).all()
    assert len(read_table("trajectories", tmp_path / "state" / "diverged" / "trajectories.parquet"))


def test_a_collapse_is_said_when_it_begins_and_stands_in_the_table(experiment, episodes, dev, swept, tmp_path, capsys):
    epoch = Epoch(experiment, TURNWISE, 0, episodes, dev, swept, tmp_path / "state")
    figures = {"reply_rate": 0.0, "repeat_share": None, "zero_spread_share": 1.0, "entropy": 0.5}
    assert epoch._warnings(3, figures) == epoch._warnings(4, figures) == "silence, no_spread"
    assert capsys.readouterr().err.count("update 3: silence: reply_rate 0: ") == 1
    assert epoch._warnings(5, figures | {"reply_rate": 0.5, "zero_spread_share": 0.0}) is None
    epoch._warnings(6, figures)
    assert "update 6: silence" in capsys.readouterr().err
