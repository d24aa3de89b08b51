"""Stage `sweep`: prefix scores and both advantages of the SFT roll-outs; it knows no arm."""

from pathlib import Path

from tasks.common import run, seed_of, timed
from turnwise.config import read_params
from turnwise.episodes import read_episodes
from turnwise.rewards import build_reward
from turnwise.tables import concat, evidence_from, read_table, trajectories_from, write_table
from turnwise.training.sweeping import advantages, decisions, sweep_groups


def main(word: str) -> None:
    """Write runs/sft/<seed>/decisions.parquet."""
    params = read_params()
    folder = Path(f"runs/sft/{seed_of(word, params)}")
    episodes = {episode.id: episode for episode in read_episodes("data/rl.jsonl")}
    with timed("sweep", word):
        trajectories = [t for _, t in trajectories_from(read_table("trajectories", folder / "trajectories.parquet"))]
        evidence = [e for _, e in evidence_from(read_table("evidence", folder / "evidence.parquet"))]
        reward = build_reward(params.reward, params.judge.train.levels)
        swept = sweep_groups(reward, episodes, trajectories, evidence)
        columns = concat(decisions(1, one, advantages(one.group, params.credit)) for one in swept)
        write_table("decisions", columns, folder / "decisions.parquet")


if __name__ == "__main__":
    run(main)
