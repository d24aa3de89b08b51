"""Stage `judge`: evidence for the SFT roll-outs; a judge swap or a retry never rolls out again."""

from pathlib import Path

from tasks.common import run, seed_of, timed
from turnwise.config import read_params
from turnwise.episodes import cut, read_episodes
from turnwise.judging import build_judge, collect_evidence, open_verdicts
from turnwise.records import turns_taken
from turnwise.rewards import build_reward
from turnwise.tables import evidence_columns, read_table, trajectories_from, write_table


def main(word: str) -> None:
    """Write runs/sft/<seed>/evidence.parquet."""
    params = read_params()
    folder = Path(f"runs/sft/{seed_of(word, params)}")
    with timed("judge", word):
        trajectories = [t for _, t in trajectories_from(read_table("trajectories", folder / "trajectories.parquet"))]
        episodes = cut(read_episodes("data/rl.jsonl"), turns_taken(trajectories))
        spec = params.judge.train
        reward = build_reward(params.reward, spec.levels)
        judge, verdicts = build_judge(spec, params.judge), open_verdicts(params.judge)
        evidence = collect_evidence(judge, verdicts, spec.levels, episodes, trajectories, reward.asks)
        write_table("evidence", evidence_columns(1, evidence), folder / "evidence.parquet")


if __name__ == "__main__":
    run(main)
