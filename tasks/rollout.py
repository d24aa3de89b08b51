"""Stage `rollout`: groups sampled from the SFT policy, in epoch order."""

from pathlib import Path

from tasks.common import run, seed_of, timed
from tasks.models import policy_of, sampler_of
from turnwise.config import read_params
from turnwise.episodes import read_episodes
from turnwise.policy import FrameStore
from turnwise.progress import Bar
from turnwise.tables import trajectory_columns, write_table
from turnwise.training.epoch import epoch_order, rollout_seed, shortened


def main(word: str) -> None:
    """Write runs/sft/<seed>/trajectories.parquet."""
    params = read_params()
    seed = seed_of(word, params)
    settings = params.rollout
    first = epoch_order(read_episodes("data/rl.jsonl"), seed)[: settings.groups]
    episodes = [shortened(episode, params.rl, seed, 1) for episode in first]
    with timed("rollout", word), Bar(f"rollout {seed}", max(e.turns for e in episodes)) as bar:
        policy = policy_of(params, Path(f"runs/sft/{seed}/model"))
        sampler = sampler_of(params, policy, FrameStore(Path("data"), policy))
        trajectories = sampler.rollout(
            episodes,
            settings.group_size,
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            seed=rollout_seed(seed, 1),
            on_turn=lambda *_: bar.advance(),
        )
        write_table("trajectories", trajectory_columns(1, trajectories), f"runs/sft/{seed}/trajectories.parquet")


if __name__ == "__main__":
    run(main)
