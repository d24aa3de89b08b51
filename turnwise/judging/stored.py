"""Groups that a finished stage left on disk, to be judged again."""

from collections.abc import Sequence
from pathlib import Path

from turnwise.config import Params
from turnwise.episodes import Episode, read_episodes
from turnwise.judging.base import Grade
from turnwise.judging.evidence import Asking, wanted
from turnwise.records import Trajectory
from turnwise.tables import read_table, trajectories_from

Rolled = tuple[Episode, Sequence[Trajectory]]
"""A group: trajectories of one episode, with as many turns as its grid has."""


def stored_groups(params: Params, arm: str, seed: int, root: Path = Path()) -> list[Rolled]:
    """The groups of a cell, in the order of its table; `arm` may be `sft`.

    Raises UserError for an arm that there is not, and for a cell that is not rolled out.
    """
    if arm != "sft":
        params.arm(arm)
    episodes = {episode.id: episode for episode in read_episodes(root / "data/rl.jsonl")}
    groups: dict[tuple[int, str], list[Trajectory]] = {}
    for update, one in trajectories_from(read_table("trajectories", root / f"runs/{arm}/{seed}/trajectories.parquet")):
        groups.setdefault((update, one.episode), []).append(one)
    return [(episodes[name].until(len(group[0].actions)), group) for (_, name), group in groups.items()]


def distinct(levels: int, groups: Sequence[Rolled], asking: Asking) -> list[Grade]:
    """What judging these groups asks, once each, in order."""
    listed = [item for episode, group in groups for item in wanted(levels, {episode.id: episode}, group, asking)]
    return list(dict.fromkeys(listed))
