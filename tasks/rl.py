"""Stage `rl`: one RL epoch of one arm. Killed at any moment, it goes on from the last completed update."""

import shutil
from pathlib import Path

import pyarrow as pa

from tasks.common import identity, run, seed_of, timed
from tasks.models import policy_of, sampler_of
from turnwise.config import Params, read_params
from turnwise.episodes import Episode, cut, read_episodes
from turnwise.judging import build_judge, open_verdicts
from turnwise.policy import FrameStore
from turnwise.progress import Bar
from turnwise.records import turns_taken
from turnwise.rewards import build_reward
from turnwise.tables import evidence_from, groups_from, read_table, trajectories_from, write_table
from turnwise.tracking import live_cell
from turnwise.training.rl import TABLES, Epoch, Experiment
from turnwise.training.sweeping import Swept, complete

SECTIONS = {"protocol", "policy", "rollout", "reward", "credit", "rl", "runtime"}
"""What of params.yaml a checkpoint depends on, beside the arm and what of the judge can change a verdict's use."""
CODE = ("credit/*", "judging/*", "policy/*", "rewards/*", "training/*", "objective", "protocols", "records", "videos")
"""The code that it depends on."""


def main(name: str, word: str) -> None:
    """Write runs/<arm>/<seed>/{model, trajectories, evidence, decisions, updates}."""
    params = read_params()
    params.arm(name)
    seed = seed_of(word, params)
    with timed("rl", f"{name}-{word}") as book:
        epoch = prepare(params, name, seed)
        with live_cell(Path(), params, name, seed) as live, Bar(f"rl {name}-{seed}", params.rl.updates) as bar:
            for update in epoch.updates():
                seconds = {lap: round(value, 4) for lap, value in update.seconds.items()}
                book({"update": update.update, **seconds, "total": round(sum(update.seconds.values()), 4)})
                metrics = {**update.figures, **{f"seconds_{lap}": s for lap, s in seconds.items()}}
                live.log(update.update, metrics, update.warnings)
                bar.advance(update.update - bar.done, reward=update.figures["reward"], alpha=update.figures["alpha"])
        finish(epoch, Path(f"runs/{name}/{seed}"))
        shutil.rmtree(epoch.state)


def prepare(params: Params, name: str, seed: int) -> Epoch:
    """The epoch over the stage's inputs, with its place for checkpoints."""
    sft = Path(f"runs/sft/{seed}")
    policy = policy_of(params, sft / "model")
    frames = FrameStore(Path("data"), policy)
    experiment = Experiment(
        params,
        policy,
        sampler_of(params, policy, frames),
        frames,
        build_judge(params.judge.train, params.judge),
        open_verdicts(params.judge),
        build_reward(params.reward, params.judge.train.levels),
    )
    episodes, dev = read_episodes("data/rl.jsonl"), read_episodes("data/dev.jsonl")
    state = Path("state/rl") / cell_identity(params, name, seed, sft, [*episodes, *dev])
    first = swept_of(sft, episodes, experiment.reward.weights, params.judge.abstain)
    return Epoch(experiment, params.arms[name], seed, episodes, dev, first, state)


def cell_identity(params: Params, name: str, seed: int, sft: Path, episodes: list[Episode]) -> str:
    """What a checkpoint belongs to: parameters, inputs with their clips, the code, and the libraries under it."""
    settings = params.model_dump(mode="json", include=SECTIONS)
    judge = params.judge.model_dump(mode="json", include={"train", "abstain"})
    values = {"arm": params.arms[name].model_dump(), "seed": seed, "judge": judge, **settings}
    tables = [sft / f"{table}.parquet" for table in TABLES[:3]]
    clips = sorted({Path("data") / episode.clip for episode in episodes})
    return identity(values, CODE, sft / "model", *tables, Path("data/rl.jsonl"), Path("data/dev.jsonl"), *clips)


def swept_of(folder: Path, episodes: list[Episode], weights: dict[str, float], abstain: str) -> list[Swept]:
    """The SFT policy's swept groups from its three tables, by the policy `judge.abstain` that they were swept with."""
    tables = {name: read_table(name, folder / f"{name}.parquet") for name in TABLES[:3]}
    groups = groups_from(tables["decisions"], weights)
    rolled, judged = trajectories_from(tables["trajectories"]), evidence_from(tables["evidence"])
    trajectories, evidence = complete(abstain, [one for _, one in rolled], [one for _, one in judged])
    by_id = cut(episodes, turns_taken(trajectories))
    return [
        Swept.of(
            by_id[name],
            [one for one in trajectories if one.episode == name],
            [one for one in evidence if one.episode == name],
            group,
        )
        for (_, name), group in groups.items()
    ]


def finish(epoch: Epoch, folder: Path) -> None:
    """Join the updates' tables and save the model."""
    for table in TABLES:
        parts = pa.concat_tables([read_table(table, path) for path in epoch.table_files(table)])
        write_table(table, parts.to_pydict(), folder / f"{table}.parquet")
    epoch.experiment.policy.save(folder / "model")


if __name__ == "__main__":
    run(main)
