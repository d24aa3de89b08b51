"""One RL epoch of one arm: roll out, judge, sweep, learn; a checkpoint after each update, from which a killed run goes on.

Every draw is derived from (seed, update, episode, index): arms share their episodes and their noise, and a resumed run
repeats what an uninterrupted one does, bit for bit on CPU.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from turnwise import config
from turnwise.episodes import Episode
from turnwise.errors import UserError
from turnwise.judging import Judge, VerdictCache, collect_evidence
from turnwise.policy import FrameStore, Loaded, Sampler, trainable_parameters
from turnwise.progress import emit
from turnwise.records import Evidence, Trajectory
from turnwise.rewards import Reward
from turnwise.tables import concat, evidence_columns, read_table, trajectory_columns, write_table
from turnwise.training.checkpoints import (
    Checkpoint,
    latest_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from turnwise.training.epoch import epoch_order, rollout_seed, shortened
from turnwise.training.guards import Diverged, Watchdog, explain, warnings_of
from turnwise.training.learning import Figures, Learner, Row
from turnwise.training.metrics import swept_figures, validation_figures
from turnwise.training.sweeping import Advantages, Swept, advantages, arm_alpha, complete, decisions, sweep_groups

TABLES = ("trajectories", "evidence", "decisions", "updates")


@dataclass(frozen=True)
class Experiment:
    """What all arms share at run time."""

    params: config.Params
    policy: Loaded
    sampler: Sampler
    frames: FrameStore
    judge: Judge
    verdicts: VerdictCache
    reward: Reward

    def rollout(self, episodes: Sequence[Episode], group_size: int, temperature: float, seed: int) -> list[Trajectory]:
        """Trajectories of the episodes by the present policy."""
        settings = self.params.rollout
        return self.sampler.rollout(
            episodes, group_size, temperature=temperature, top_k=settings.top_k, top_p=settings.top_p, seed=seed
        )

    def evidence(self, episodes: Sequence[Episode], trajectories: Sequence[Trajectory]) -> list[Evidence]:
        """The training judge's evidence, in the order of the trajectories."""
        by_id = {episode.id: episode for episode in episodes}
        levels = self.params.judge.train.levels
        return collect_evidence(self.judge, self.verdicts, levels, by_id, trajectories, self.reward.asks)

    def sweep(
        self, episodes: Sequence[Episode], trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
    ) -> list[Swept]:
        """Swept groups."""
        return sweep_groups(self.reward, {episode.id: episode for episode in episodes}, trajectories, evidence)


@dataclass(frozen=True)
class Update:
    """What an update reports: `figures` go to the updates table and MLflow, `seconds` to the timings."""

    update: int
    figures: dict[str, float | None]
    warnings: str | None
    """Names of what has collapsed (guards.py), or None."""
    seconds: dict[str, float]


class Epoch:
    """An arm's epoch over `episodes`; iterate over `updates()` to run it, then write what `tables` and the policy hold."""

    def __init__(
        self,
        experiment: Experiment,
        arm: config.Arm,
        seed: int,
        episodes: Sequence[Episode],
        dev: Sequence[Episode],
        first: Sequence[Swept],
        state: Path,
    ):
        """`first` holds the SFT policy's swept groups, update 1's among them; `state` keeps checkpoints and tables."""
        rl = experiment.params.rl
        needed = rl.updates * rl.groups_per_update
        if needed > len(episodes):
            raise UserError(
                f"params.yaml: rl.updates: {rl.updates} updates of {rl.groups_per_update} groups need {needed} episodes, "
                f"data/rl.jsonl has {len(episodes)}; lower rl.updates or raise data.rl_clips"
            )
        self.experiment, self.arm, self.seed, self.rl, self.dev = experiment, arm, seed, rl, dev
        self.order, self.first, self.state = epoch_order(episodes, seed), first, state
        policy = experiment.policy
        accelerator = Accelerator(cpu=policy.device.type == "cpu")
        parameters = trainable_parameters(policy, freeze_vision=experiment.params.policy.freeze_vision)
        self.adam = torch.optim.AdamW(parameters, lr=rl.lr, weight_decay=rl.weight_decay, betas=(0.9, 0.95))
        _, optimizer = accelerator.prepare(policy.model, self.adam)
        temperature = experiment.params.rollout.temperature
        self.learner = Learner(policy, experiment.frames, accelerator, optimizer, rl, temperature)
        self.watchdog, self._warned = Watchdog(), set[str]()

    def updates(self) -> Iterator[Update]:
        """Run from the last completed update to the end of the epoch, yielding each update once it is checkpointed."""
        self.experiment.policy.model.eval()
        for update in range(self._resume() + 1, self.rl.updates + 1):
            with self.watchdog.watch():
                done = self._update(update)
            yield done

    def table_files(self, name: str) -> list[Path]:
        """The finished updates' parts of a table, in order."""
        return [self.state / "tables" / f"update-{u:05d}" / f"{name}.parquet" for u in range(1, self.rl.updates + 1)]

    def _resume(self) -> int:
        checkpoint = latest_checkpoint(self.state / "checkpoints", self._tables_whole)
        if checkpoint is None:
            return 0
        trained = {name for name, p in self.experiment.policy.model.named_parameters() if p.requires_grad}
        assert checkpoint.weights.keys() == trained, "the fingerprint of the state folder tells models apart"
        self.experiment.policy.model.load_state_dict(checkpoint.weights, strict=False)
        restore_optimizer(self.adam, checkpoint.optimizer)
        self.learner.skipped_in_row = checkpoint.state["skipped_in_row"]
        emit("resume", update=checkpoint.update, of=self.rl.updates, state=str(self.state))
        return checkpoint.update

    def _tables_whole(self, update: int) -> bool:
        """Whether the tables of all updates up to this one can be read."""
        try:
            for name in TABLES:
                for path in self.table_files(name)[:update]:
                    read_table(name, path)
        except UserError:
            return False
        return True

    def _update(self, update: int) -> Update:
        clock = _Clock()
        size = self.rl.groups_per_update
        chosen = self.order[(update - 1) * size : update * size]
        episodes = [shortened(episode, self.rl, self.seed, update) for episode in chosen]
        swept = self._swept(update, episodes, clock)
        if not swept:
            raise UserError(
                f"params.yaml: judge.abstain: drop_trajectory left no group of update {update} to learn from; see to the "
                "judge and run again"
            )
        alpha = arm_alpha(self.arm, self.rl, update)
        credit = [advantages(one.group, self.experiment.params.credit, self.arm, alpha) for one in swept]
        clock.lap("credit")
        learned = self._learn(update, swept, credit)
        if self.learner.skipped_in_row >= self.rl.max_skipped:
            raise self._diverged(update, swept, credit)
        clock.lap("learn")
        figures = swept_figures(swept, credit, self.experiment.params.credit.a_max)
        sampled = len(episodes) * self.experiment.params.rollout.group_size
        figures |= {"dropped_trajectories": sampled - sum(len(one.trajectories) for one in swept)}
        figures |= {"alpha": alpha, "learning_rate": self._rate(update), **learned, **self._validate(update)}
        clock.lap("validate")
        warnings = self._warnings(update, figures)
        self._save(update, swept, credit, figures, warnings)
        clock.lap("save")
        return Update(update, figures, warnings, clock.laps)

    def _warnings(self, update: int, figures: Mapping[str, float | None]) -> str | None:
        """What has collapsed, for the updates table; said once when it begins."""
        names = warnings_of(figures)
        for name in names:
            if name not in self._warned:
                emit("warning", message=f"update {update}: {explain(name, figures)}")
        self._warned = set(names)
        return ", ".join(names) or None

    def _diverged(self, update: int, swept: Sequence[Swept], credit: Sequence[Advantages]) -> Diverged:
        """The error that stops the run, with the batch that it could not learn from on disk."""
        folder = self.state / "diverged"
        rows = self._batch(update, swept, credit)
        for name in ("trajectories", "decisions"):
            write_table(name, rows[name], folder / f"{name}.parquet")
        return Diverged(
            f"update {update}: {self.learner.skipped_in_row} optimizer steps in a row had a loss or gradient that is not "
            f"finite; the batch is in {folder}; lower rl.lr or see to reward and credit, then run again"
        )

    def _batch(self, update: int, swept: Sequence[Swept], credit: Sequence[Advantages]) -> dict[str, Any]:
        """Columns of the update's tables of trajectories, evidence and decisions."""
        return {
            "trajectories": concat(trajectory_columns(update, one.trajectories) for one in swept),
            "evidence": concat(evidence_columns(update, one.evidence) for one in swept),
            "decisions": concat(decisions(update, one, values) for one, values in zip(swept, credit, strict=True)),
        }

    def _swept(self, update: int, episodes: Sequence[Episode], clock: "_Clock") -> list[Swept]:
        """The update's swept groups that abstentions left: the SFT policy's for update 1, else rolled out and judged now."""
        if update == 1:
            by_episode = {one.episode.id: one for one in self.first}
            return [by_episode[episode.id] for episode in episodes if episode.id in by_episode]
        run, settings = self.experiment, self.experiment.params.rollout
        seed = rollout_seed(self.seed, update)
        trajectories = run.rollout(episodes, settings.group_size, settings.temperature, seed)
        clock.lap("rollout")
        evidence = run.evidence(episodes, trajectories)
        clock.lap("judge")
        swept = run.sweep(episodes, *complete(run.params.judge.abstain, trajectories, evidence))
        clock.lap("sweep")
        return swept

    def _learn(self, update: int, swept: Sequence[Swept], credit: Sequence[Advantages]) -> Figures:
        for group in self.adam.param_groups:
            group["lr"] = self._rate(update)
        rows = []
        for one, values in zip(swept, credit, strict=True):
            assert values.used is not None
            rows += [Row(one.episode, t, values.used[i]) for i, t in enumerate(one.trajectories)]
        return self.learner.update(rows, self.arm, np.random.default_rng([self.seed, 2, update]))

    def _rate(self, update: int) -> float:
        """Learning rate: linear warm-up over `rl.warmup_updates`, then constant."""
        return self.rl.lr * min(1.0, update / (self.rl.warmup_updates + 1))

    def _validate(self, update: int) -> Mapping[str, float | None]:
        """Greedy roll-outs on the development split, scored by the training reward; nulls between the points."""
        if update % self.rl.validate_every and update not in (1, self.rl.updates):
            return validation_figures([], self.experiment.reward.weights)
        trajectories = self.experiment.rollout(self.dev, 1, 0.0, rollout_seed(self.seed, 0))
        evidence = self.experiment.evidence(self.dev, trajectories)
        swept = self.experiment.sweep(self.dev, trajectories, evidence)
        return validation_figures(swept, self.experiment.reward.weights)

    def _save(
        self,
        update: int,
        swept: Sequence[Swept],
        credit: Sequence[Advantages],
        figures: Mapping[str, float | None],
        warnings: str | None,
    ) -> None:
        """The update's tables first, then the checkpoint that counts it as completed."""
        columns = self._batch(update, swept, credit)
        columns["updates"] = {"update": [update], **{name: [value] for name, value in figures.items()}}
        columns["updates"]["warnings"] = [warnings]
        for name in TABLES:
            write_table(name, columns[name], self.state / "tables" / f"update-{update:05d}" / f"{name}.parquet")
        weights = self.experiment.policy.model.state_dict()
        trained = {name for name, p in self.experiment.policy.model.named_parameters() if p.requires_grad}
        kept = {name: tensor for name, tensor in weights.items() if name in trained}
        state = {"alpha": figures["alpha"], "skipped_in_row": self.learner.skipped_in_row}
        checkpoint = Checkpoint(update, kept, optimizer_tensors(self.adam), state)
        save_checkpoint(self.state / "checkpoints", checkpoint, self.rl.keep_checkpoints)


class _Clock:
    """Seconds of named laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Book the seconds since the last lap under `name`."""
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
