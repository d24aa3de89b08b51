"""Records to columns of tables and back. Turns count from 1 in tables; NaN is null there."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from turnwise.episodes import Episode
from turnwise.records import Action, Evidence, Float, Group, Trajectory, flipped

Columns = dict[str, list[Any]]


def concat(columns: Iterable[Columns]) -> Columns:
    """The rows of several tables of the same columns, one after the other; no columns at all for no table."""
    joined: Columns = defaultdict(list)
    for part in columns:
        for name, values in part.items():
            joined[name].extend(values)
    return dict(joined)


def trajectory_columns(update: int, trajectories: Sequence[Trajectory]) -> Columns:
    """Columns of `trajectories`, one row a trajectory; token ids and log-probabilities are nested lists [T][K]."""
    return {
        "update": [update] * len(trajectories),
        "episode": [trajectory.episode for trajectory in trajectories],
        "trajectory": [trajectory.index for trajectory in trajectories],
        "tokens": [[list(action.tokens) for action in trajectory.actions] for trajectory in trajectories],
        "logprobs": [[list(action.logprobs) for action in trajectory.actions] for trajectory in trajectories],
        "text": [[action.text for action in trajectory.actions] for trajectory in trajectories],
        "kind": [[action.kind for action in trajectory.actions] for trajectory in trajectories],
        "capped": [[action.capped for action in trajectory.actions] for trajectory in trajectories],
        "thought_tokens": [[action.thought_tokens for action in trajectory.actions] for trajectory in trajectories],
    }


def trajectories_from(table: pa.Table) -> list[tuple[int, Trajectory]]:
    """(update, trajectory) of each row of a `trajectories` table, in its order; equal to what was written."""
    return [(row["update"], _trajectory(row)) for row in table.to_pylist()]


def _trajectory(row: dict[str, Any]) -> Trajectory:
    fields = zip(
        *(row[name] for name in ("tokens", "logprobs", "text", "kind", "capped", "thought_tokens")), strict=True
    )
    actions = (Action(tuple(tokens), tuple(logprobs), *view) for tokens, logprobs, *view in fields)
    return Trajectory(row["episode"], row["trajectory"], tuple(actions))


def evidence_columns(update: int, evidence: Sequence[Evidence]) -> Columns:
    """Columns of `evidence`, one row a decision; `levels` is a list [W]."""
    return concat(_facts(update, one) for one in evidence) or {name: [] for name in _facts(update, _NOTHING)}


def _facts(update: int, evidence: Evidence) -> Columns:
    turns = len(evidence.kinds)
    return {
        "update": [update] * turns,
        "episode": [evidence.episode] * turns,
        "trajectory": [evidence.index] * turns,
        "turn": list(range(1, turns + 1)),
        "kind": list(evidence.kinds),
        "levels": _lists(evidence.levels),
        "repeat": evidence.repeats.tolist(),
        "outside": evidence.outside.tolist(),
        "prefix_chars": evidence.prefix_chars.tolist(),
        "abstained": evidence.abstained.tolist(),
        "answers": [None] * turns if evidence.answers is None else _lists(evidence.answers),
        "rubric": [None] * turns if evidence.rubric is None else evidence.rubric.tolist(),
        "thought_tokens": [None] * turns if evidence.thought_tokens is None else evidence.thought_tokens.tolist(),
    }


def _lists(values: Float) -> list[list[float | None]]:
    return [[None if np.isnan(value) else value for value in row] for row in values.tolist()]


_NOTHING = Evidence(
    "",
    0,
    (),
    np.zeros((0, 0)),
    np.zeros(0),
    np.zeros(0, dtype=bool),
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=bool),
)


def evidence_from(table: pa.Table) -> list[tuple[int, Evidence]]:
    """(update, evidence) of each trajectory of an `evidence` table, in its order; equal to what was written."""
    rows: dict[tuple[int, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["update"], row["episode"], row["trajectory"]].append(row)
    return [(update, _evidence(episode, index, turns)) for (update, episode, index), turns in rows.items()]


def _evidence(episode: str, index: int, turns: list[dict[str, Any]]) -> Evidence:
    return Evidence(
        episode=episode,
        index=index,
        kinds=tuple(row["kind"] for row in turns),
        levels=np.array([row["levels"] for row in turns], dtype=np.float64).reshape(len(turns), -1),
        repeats=np.array([row["repeat"] for row in turns], dtype=np.float64),
        outside=np.array([row["outside"] for row in turns], dtype=bool),
        prefix_chars=np.array([row["prefix_chars"] for row in turns], dtype=np.int64),
        abstained=np.array([row["abstained"] for row in turns], dtype=bool),
        answers=_optional("answers", turns, (len(turns), -1)),
        rubric=_optional("rubric", turns),
        thought_tokens=_optional("thought_tokens", turns, dtype=np.int64),
    )


def _optional(name: str, turns: list[dict[str, Any]], shape: tuple[int, ...] = (-1,), dtype: Any = np.float64) -> Any:
    """An array of a column of one trajectory; None where it has no value at all."""
    column = [row[name] for row in turns]
    return None if all(value is None for value in column) else np.array(column, dtype=dtype).reshape(shape)


def decision_columns(
    update: int,
    episode: Episode,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    group: Group,
    *,
    advantage_global: Float,
    advantage_turn: Float,
    advantage_used: Float | None,
    live: bool,
) -> Columns:
    """Columns of `decisions` for one group: G trajectories of `episode` in the order of `group`'s rows, T turns each.

    `advantage_global` is [G], `advantage_turn` and `advantage_used` [G, T] (None: nothing was learned). `live` False marks
    a group dropped for zero spread, whose `flipped` is null. The terms of `group` become `term_<name>`.
    """
    shape = G, T = len(trajectories), episode.turns
    actions = [action for trajectory in trajectories for action in trajectory.actions]
    repeats = np.concatenate([one.repeats for one in evidence])
    flips = flipped(advantage_global, advantage_turn)
    by_trajectory = {
        "trajectory": np.array([trajectory.index for trajectory in trajectories]),
        "reward": group.rewards,
        "silent_reward": group.scores[:, 0],
        "advantage_global": advantage_global,
        **{f"silent_{name}": term[:, 0] for name, term in group.terms.items()},
    }
    by_decision = {
        "turn": np.broadcast_to(np.arange(1, T + 1), shape),
        "time": np.broadcast_to(episode.grid.times, shape),
        "outside": np.stack([one.outside for one in evidence]),
        "abstained": np.stack([one.abstained for one in evidence]),
        "prefix_score": group.scores[:, 1:],
        "earned": group.earned,
        "remaining": group.remaining,
        "advantage_turn": advantage_turn,
        **{f"term_{name}": term[:, 1:] for name, term in group.terms.items()},
    }
    return {
        "update": [update] * (G * T),
        "episode": [episode.id] * (G * T),
        "task": [episode.task] * (G * T),
        "kind": [action.kind for action in actions],
        "text": [action.text for action in actions],
        "tokens": [len(action.tokens) for action in actions],
        "repeat": [None if np.isnan(repeat) else bool(repeat) for repeat in repeats],
        "advantage_used": [None] * (G * T) if advantage_used is None else np.reshape(advantage_used, -1).tolist(),
        "flipped": flips.reshape(-1).tolist() if live else [None] * (G * T),
        "live": [live] * (G * T),
        **{name: np.repeat(values, T).tolist() for name, values in by_trajectory.items()},
        **{name: np.reshape(values, -1).tolist() for name, values in by_decision.items()},
    }


def groups_from(table: pa.Table, weights: dict[str, float]) -> dict[tuple[int, str], Group]:
    """The groups of a `decisions` table by (update, episode), as `decision_columns` took them; `weights` names the terms."""
    rows: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["update"], row["episode"]].append(row)
    return {key: _group(decisions, weights) for key, decisions in rows.items()}


def _group(rows: list[dict[str, Any]], weights: dict[str, float]) -> Group:
    turns = max(row["turn"] for row in rows)

    def prefixes(silent: str, at_turn: str) -> Float:
        at = np.array([row[at_turn] for row in rows]).reshape(-1, turns)
        return np.concatenate([np.array([row[silent] for row in rows[::turns]])[:, None], at], axis=1)

    terms = {name: prefixes(f"silent_{name}", f"term_{name}") for name in weights}
    return Group(scores=prefixes("silent_reward", "prefix_score"), terms=terms, weights=dict(weights))
