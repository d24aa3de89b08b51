import numpy as np
import pytest
import torch
from accelerate import Accelerator
from spy import Spy

from turnwise.config import Arm
from turnwise.policy import trainable_parameters
from turnwise.training.learning import Learner, Row

ARMS = {
    "grpo": Arm(credit="grpo"),
    "turn-mean": Arm(credit="grpo", aggregation="turn-mean"),
    "token-mean": Arm(credit="grpo", aggregation="token-mean"),
}


def gradients(experiment, rows, arm, micro_batch, minibatches=1):
    spy = Spy(trainable_parameters(experiment.policy, freeze_vision=True))
    rl = experiment.params.rl.model_copy(
        update={"micro_batch": micro_batch, "minibatches": minibatches, "max_grad_norm": 1e9}
    )
    learner = Learner(experiment.policy, experiment.frames, Accelerator(cpu=True), spy, rl, 1.0)
    figures = learner.update(rows, arm, np.random.default_rng(0))
    return spy.seen, figures


def learner_of(experiment, lr):
    optimizer = torch.optim.SGD(trainable_parameters(experiment.policy, freeze_vision=True), lr=lr)
    rl = experiment.params.rl.model_copy(update={"minibatches": 1})
    return Learner(experiment.policy, experiment.frames, Accelerator(cpu=True), optimizer, rl, 1.0)


@pytest.fixture
def rows(experiment, episodes):
    trajectories = experiment.rollout(episodes[:2], 4, 1.0, seed=5)
    by_id = {episode.id: episode for episode in episodes}
    rng = np.random.default_rng(1)
    return [Row(by_id[t.episode], t, rng.normal(size=len(t.actions))) for t in trajectories]


@pytest.mark.parametrize("name", list(ARMS))
def test_no_split_into_micro_batches_changes_the_gradient_or_the_figures(experiment, rows, name):
    (whole,), figures = gradients(experiment, rows, ARMS[name], micro_batch=len(rows))
    for size in (1, 3):
        (split,), again = gradients(experiment, rows, ARMS[name], micro_batch=size)
        for a, b in zip(whole, split, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)
        assert again == pytest.approx(figures, rel=1e-4, abs=1e-6)


def test_a_fresh_roll_out_is_on_policy(experiment, rows):
    _, figures = gradients(experiment, rows, ARMS["grpo"], micro_batch=8)
    assert figures["logprob_gap"] < 1e-4
    assert figures["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert figures["clip_low_share"] == figures["clip_high_share"] == figures["dual_clip_share"] == 0
    assert figures["approx_kl"] < 1e-8


def test_minibatches_are_optimizer_steps_over_all_rows_once(experiment, rows):
    steps, _ = gradients(experiment, rows, ARMS["grpo"], micro_batch=2, minibatches=2)
    assert len(steps) == 2


def test_rows_without_advantage_give_no_gradient_but_stay_in_the_denominator(experiment, rows):
    dead = [Row(row.episode, row.trajectory, np.zeros_like(row.advantages)) for row in rows]
    (alone,), _ = gradients(experiment, rows, ARMS["turn-mean"], micro_batch=8)
    (beside,), _ = gradients(experiment, [*rows, *dead], ARMS["turn-mean"], micro_batch=8)
    for a, b in zip(alone, beside, strict=True):
        torch.testing.assert_close(a / 2, b, rtol=1e-4, atol=1e-7)


def test_a_tower_in_training_sees_each_frame_of_a_step_once_more(experiment, rows):
    """Once for all eight roll-outs, once for all eight micro-batches of a step."""
    rolled_out = experiment.frames.tower_frames
    spy = Spy(trainable_parameters(experiment.policy, freeze_vision=False))
    rl = experiment.params.rl.model_copy(update={"micro_batch": 1, "minibatches": 1})
    Learner(experiment.policy, experiment.frames, Accelerator(cpu=True), spy, rl, 1.0).update(
        rows, ARMS["grpo"], np.random.default_rng(0)
    )
    assert rolled_out == len(
        {(row.episode.clip, t) for row in rows for times in row.episode.grid.frame_times for t in times}
    )
    assert experiment.frames.tower_frames == 2 * rolled_out
    assert len(spy.seen[0]) == len(list(experiment.policy.model.parameters()))


def test_a_step_without_a_finite_loss_changes_nothing_and_is_counted(experiment, rows):
    broken = [Row(rows[0].episode, rows[0].trajectory, np.full_like(rows[0].advantages, np.inf)), *rows[1:]]
    learner = learner_of(experiment, lr=0.1)
    before = {name: p.clone() for name, p in experiment.policy.model.state_dict().items()}
    figures = learner.update(broken, ARMS["grpo"], np.random.default_rng(0))
    assert (figures["skipped_steps"], learner.skipped_in_row) == (1, 1)
    assert not np.isfinite(figures["loss"])
    assert all(torch.equal(p, before[name]) for name, p in experiment.policy.model.state_dict().items())
    figures = learner.update(rows, ARMS["grpo"], np.random.default_rng(0))
    assert (figures["skipped_steps"], learner.skipped_in_row) == (0, 0)
    assert any(not torch.equal(p, before[name]) for name, p in experiment.policy.model.state_dict().items())
