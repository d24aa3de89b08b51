"""Small tables by hand, and an experiment of three cells made of them."""

import math
from pathlib import Path

import numpy as np

from turnwise import tables
from turnwise.episodes import Episode, Grid
from turnwise.records import Action, Evidence, Group, Trajectory

TERMS = ("pauc", "repetition", "outside", "prefix")
CELLS = [("sft", 0), ("grpo", 0), ("turnwise", 0)]
LIVE = {
    "advantage_global": np.array([0.5, -0.5]),
    "advantage_turn": np.array([[0.5, 0.0], [-0.5, 0.3]]),
    "advantage_used": np.array([[1.0, 2.0], [3.0, 4.0]]),
}
ABLATION = """\
arm,metric,n,mean,low,high,difference,difference_low,difference_high,published,seed_0
grpo,pauc,1,55.5,,,,,,39.6,55.5
turnwise,pauc,1,60,,,4.5,,,,60
sft,repetition,0,,,,,,,,
"""
ZERO = {"advantage_global": np.zeros(2), "advantage_turn": np.zeros((2, 2)), "advantage_used": np.zeros((2, 2))}


def group_of_two():
    """T = 2; U of trajectory 0: 1, 1, 4 (it waits, then earns 3); of trajectory 1: 1, 3, 2 (earns 2, loses 1)."""
    episode = Episode(
        id="e1", clip="e1.mp4", task="steps", grid=Grid(frame_interval=2.0, turns=2), queries=(), windows=()
    )
    wait, say = (
        Action((5, 6), (-0.1, -0.2), "NO REPLY", "silence", False),
        Action((9,), (-1.0,), "a dot", "reply", True),
    )
    two = [Trajectory("e1", 0, (wait, say)), Trajectory("e1", 1, (say, say))]
    facts = [
        Evidence(
            "e1",
            i,
            tuple(a.kind for a in t.actions),
            np.array([[math.nan], [4.0]]) if i == 0 else np.array([[0.0], [math.nan]]),
            np.array([math.nan, 0.0]) if i == 0 else np.array([0.0, 1.0]),
            np.array([False, i == 1]),
            np.zeros(2, dtype=np.int64),
            np.zeros(2, dtype=bool),
        )
        for i, t in enumerate(two)
    ]
    scores = np.array([[1.0, 1.0, 4.0], [1.0, 3.0, 2.0]])
    terms = {"pauc": scores / 3, "repetition": -scores, "outside": scores * 0, "prefix": scores * 0}
    return episode, two, facts, Group(scores=scores, terms=terms)


def columns_of_two(update=1, live=True, **changes):
    return tables.decision_columns(update, *group_of_two(), **{**(LIVE if live else ZERO), **changes}, live=live)


def update_row(update, **values):
    row = {name: [None] for name in tables.schema_of("updates", TERMS).names}
    row |= {"update": [update], "alpha": [0.5], "learning_rate": [1e-4], "dropped_trajectories": [0]}
    row |= {"skipped_steps": [0]}
    return row | {name: [value] for name, value in values.items()}


def sample_rows(scores):
    rows = len(scores)
    return {
        "benchmark": ["ovo_timing"] * rows,
        "subset": ["a", "a", "b"],
        "item": [str(i) for i in range(rows)],
        "query_time": [None] * rows,
        "score": scores,
        "scored": [score is not None for score in scores],
        "replies": [1] * rows,
        "detail": ["{}"] * rows,
    }


def write_experiment(root: Path) -> None:
    """Three cells; `turnwise` has a second update whose group was dropped; `sft` has no updates."""
    _, _, facts, _ = group_of_two()
    learned = [update_row(1, reward=1.0, reward_pauc=0.2, approx_kl=0.1, clip_low_share=0.0, clip_high_share=0.5)]
    learned.append(update_row(2, reward=3.0, entropy=0.7, approx_kl=0.3, clip_low_share=0.1, clip_high_share=0.0))
    for (arm, seed), scores in zip(CELLS, ([0.0, 0.0, 0.0], [0.5, None, 1.0], [1.0, 1.0, 0.5]), strict=True):
        folder = root / "runs" / arm / str(seed)
        updates = {"sft": [], "grpo": learned[:1], "turnwise": learned}[arm]
        decisions = [columns_of_two(**({"advantage_used": None} if arm == "sft" else {}))]
        decisions += [columns_of_two(update=2, live=False)] * (arm == "turnwise")
        tables.write_table("decisions", tables.concat(decisions), folder / "decisions.parquet")
        tables.write_table("evidence", tables.evidence_columns(1, facts), folder / "evidence.parquet")
        tables.write_table("samples", sample_rows(scores), folder / "eval" / "samples.parquet")
        if updates:
            tables.write_table("updates", tables.concat(updates), folder / "updates.parquet")
    (root / "reports").mkdir()
    (root / "reports" / "ablation.csv").write_text(ABLATION, encoding="utf-8")
    tables.build_catalogue(root / "turnwise.duckdb", root, CELLS, TERMS)
