"""Stage `sweep`: prefix scores and both advantages of the SFT roll-outs; it knows no arm."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks.common import run, seed_of, timed
from turnwise.config import read_params
from turnwise.episodes import cut, read_episodes
from turnwise.errors import UserError
from turnwise.progress import emit
from turnwise.records import turns_taken
from turnwise.rewards import build_reward
from turnwise.tables import concat, evidence_from, read_table, trajectories_from, write_table
from turnwise.training.sweeping import Swept, advantages, complete, decisions, sweep_groups

MOST_DEAD = 0.3
"""Share of groups without reward spread from which on a warning is due."""


def main(word: str) -> None:
    """Write runs/sft/<seed>/decisions.parquet."""
    params = read_params()
    folder = Path(f"runs/sft/{seed_of(word, params)}")
    with timed("sweep", word):
        trajectories = [t for _, t in trajectories_from(read_table("trajectories", folder / "trajectories.parquet"))]
        evidence = [e for _, e in evidence_from(read_table("evidence", folder / "evidence.parquet"))]
        episodes = cut(read_episodes("data/rl.jsonl"), turns_taken(trajectories))
        reward = build_reward(params.reward, params.judge.train.levels)
        left = complete(params.judge.abstain, trajectories, evidence)
        if not left[0]:
            raise UserError("params.yaml: judge.abstain: drop_trajectory left no group; see to the judge, judge again")
        swept = sweep_groups(reward, episodes, *left)
        emit("abstentions", trajectories=len(trajectories), dropped=len(trajectories) - len(left[0]))
        credit = [advantages(one.group, params.credit) for one in swept]
        warn(swept, [values.live for values in credit])
        columns = concat(decisions(1, one, values) for one, values in zip(swept, credit, strict=True))
        write_table("decisions", columns, folder / "decisions.parquet")


def warn(swept: Sequence[Swept], live: Sequence[bool]) -> None:
    """Say what RL will have to learn from, and warn where that is too little."""
    reward = float(np.mean([one.group.rewards for one in swept]))
    silent = float(np.mean([one.group.scores[:, 0] for one in swept]))
    dead = 1 - float(np.mean(live))
    emit(
        "sweep", groups=len(swept), reward=round(reward, 4), silent_reward=round(silent, 4), zero_spread=round(dead, 4)
    )
    if reward <= silent:
        emit(
            "warning",
            message="the SFT policy earns no more than silence: RL would teach it to be silent; train sft longer",
        )
    if dead >= MOST_DEAD:
        emit(
            "warning",
            message=f"{dead:.0%} of the groups have no reward spread and teach nothing; raise rollout.group_size",
        )


if __name__ == "__main__":
    run(main)
