"""The aggregations and the log-ratio over turns, against TRL given one row a turn.

TRL's `grpo` gives a token of one of N rows the weight 1 / (N · its row's tokens). Where a row is a turn, that is
turn-mean's 1 / (S · T_i · tokens of the turn) but for N / (S · T_i), by which the turn's advantage is multiplied: the
factor is above 0, so the same clips act. S counts the trajectories, with the one that has no turn; T_i its turns.
"""

import pytest
import torch
from trl_side import (
    ACTIONS,
    LONGEST,
    action_logprobs,
    assert_equal,
    drift,
    of_actions,
    one_row_a_turn,
    rows,
    scored,
    trainer_for,
    trl_clips,
    trl_loss,
    turn_ids,
    turnwise_loss,
    with_gradient,
)

TRAJECTORIES = rows()
TURNS = turn_ids(TRAJECTORIES)
SPLIT = one_row_a_turn(TRAJECTORIES)
SPLIT_IDS = turn_ids(SPLIT)
CLIPS = {"clip_low": 0.1, "clip_high": 0.15, "dual_clip": 1.25}
# dr_grpo divides each of N rows by LONGEST where turn-sum-norm divides by the tokens of a mean turn.
MEAN_TURN = sum(map(sum, ACTIONS)) / len(SPLIT)
MODES = {"turn-mean": ("grpo", 1.0), "turn-sum-norm": ("dr_grpo", LONGEST / MEAN_TURN)}


@pytest.mark.parametrize(("level", "trl_level"), [("token", "token"), ("turn", "sequence")])
@pytest.mark.parametrize("aggregation", MODES)
def test_one_row_a_turn(model_folders, aggregation, level, trl_level):
    loss_type, factor = MODES[aggregation]
    settings = {"loss_type": loss_type, "importance_sampling_level": trl_level, "num_generations": 2}
    trainer = trainer_for(model_folders["opt"], SPLIT, [[0.0] * len(SPLIT)], **settings, **trl_clips(CLIPS))
    inputs = scored(trainer, SPLIT)
    drift(trainer.model, 0.1)
    advantages = torch.randn(TURNS.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    inputs["advantages"] = factor * torch.stack(
        [
            advantages[i, turn] * len(SPLIT) / (len(TRAJECTORIES) * len(set(row.turns) - {-1}))
            for i, row in enumerate(TRAJECTORIES)
            for turn in sorted(set(row.turns) - {-1})
        ]
    )
    old = torch.full(TURNS.shape, torch.nan, dtype=torch.float64)
    old[TURNS >= 0] = of_actions(inputs["old_per_token_logps"], SPLIT)[SPLIT_IDS >= 0]
    logp = action_logprobs(trainer.model, TRAJECTORIES)
    loss = turnwise_loss(logp, old, advantages, TURNS, aggregation=aggregation, level=level, clips=CLIPS)
    assert_equal(with_gradient(trainer.model, loss.loss), trl_loss(trainer, inputs))
    assert min(loss.clip_low, loss.clip_high, loss.dual) > 0
