"""Stage `judge`: evidence for the SFT roll-outs; a judge swap or a retry never rolls out again."""

from pathlib import Path

from tasks.common import run, seed_of, timed
from turnwise.config import read_params
from turnwise.episodes import read_episodes
from turnwise.judging import VerdictCache, build_judge, collect_evidence
from turnwise.tables import evidence_columns, read_table, trajectories_from, write_table


def main(word: str) -> None:
    """Write runs/sft/<seed>/evidence.parquet."""
    params = read_params()
    folder = Path(f"runs/sft/{seed_of(word, params)}")
    episodes = {episode.id: episode for episode in read_episodes("data/rl.jsonl")}
    with timed("judge", word):
        trajectories = [t for _, t in trajectories_from(read_table("trajectories", folder / "trajectories.parquet"))]
        spec = params.judge.train
        verdicts = VerdictCache("state/verdicts.sqlite")
        evidence = collect_evidence(build_judge(spec), verdicts, spec.levels, episodes, trajectories)
        write_table("evidence", evidence_columns(1, evidence), folder / "evidence.parquet")


if __name__ == "__main__":
    run(main)
