"""A small finished experiment, written with the project's own tables: two clips, cells for every arm and seed."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from turnwise.config import Params, read_yaml, validate
from turnwise.episodes import Episode, Grid, Query, Window, write_records
from turnwise.files import write_json, write_jsonl
from turnwise.tables import build_catalogue, schema_of, write_table
from turnwise.videos import write_clip

PROFILE = Path(__file__).parents[2] / "profiles" / "embedded.yaml"
HOSTILE = '</script></svg><script>document.title = "broken"</script><img src=x onerror="document.title = 1">'
"""A reply that is markup."""
TERMS = ("pauc", "repetition", "outside", "prefix")
PAUC = {"sft": 40.0, "grpo": 55.0, "turn_mean": 57.0, "credit": 58.5, "turnwise": 61.0}


def table_of(name: str, rows: list[dict], path: Path) -> None:
    """Write rows as a table; columns they leave out are null, or zero where null is not allowed."""
    zero = {pa.types.is_string: "", pa.types.is_boolean: False}

    def default(field):
        return None if field.nullable else next((z for is_kind, z in zero.items() if is_kind(field.type)), 0)

    schema = schema_of(name, TERMS)
    write_table(name, {f.name: [row.get(f.name, default(f)) for row in rows] for f in schema}, path)


def params_with(**changes) -> Params:
    return validate({"profiles": ["embedded"], **read_yaml(PROFILE), **changes}, "test")


def episode(number: int, turns: int = 16) -> Episode:
    windows = tuple(
        Window(text=text, related=(start, start + 6), reply=(start, start + 7))
        for text, start in (("a dark striped disc", 4.0), ("a bright plain square", 15.0), ("a dark plain cross", 24.0))
    )
    query = Query(text="Tell me about every new object.", time=0.0)
    grid = Grid(frame_interval=2.0, turns=turns)
    return Episode(
        id=f"e{number}", clip=f"clips/{number}.mp4", task="new_object", grid=grid, queries=(query,), windows=windows
    )


def decisions_of(episodes: list[Episode], seed: int, updates: int, group: int, said: str) -> list[dict]:
    """Random walks of prefix scores with the advantages that follow from them (alpha 1, ddof 1)."""
    rng, rows = np.random.default_rng(seed), []
    for update in range(1, updates + 1):
        for ep in episodes:
            spoke = rng.random((group, ep.turns)) < 0.3
            repeat = spoke & (np.cumsum(spoke, axis=1) > 1) & (rng.random(spoke.shape) < 0.5)
            steps = spoke * np.where(repeat, -0.12, rng.normal(0.15, 0.25, spoke.shape))
            scores = 0.375 + np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)
            live = bool(rng.random() > 0.1)
            total, earned = scores[:, -1], scores[:, :-1] - scores[:, :1]
            spread = total.std(ddof=1) + 1e-6
            a_global = (total - total.mean()) / spread * live
            a_turn = np.clip(a_global[:, None] - live * (earned - earned.mean(0)) / spread, -5, 5)
            for i, t in np.ndindex(group, ep.turns):
                flipped = bool(np.sign(a_global[i]) * np.sign(a_turn[i, t]) < 0) if live else None
                rows.append(
                    {
                        "update": update, "episode": ep.id, "task": ep.task, "trajectory": i, "turn": t + 1,
                        "time": ep.grid.times[t], "kind": "reply" if spoke[i, t] else "silence",
                        "text": said if spoke[i, t] else "NO REPLY", "tokens": 9,
                        "repeat": bool(repeat[i, t]) if spoke[i, t] else None,
                        "outside": bool(spoke[i, t]) and not ep.windows_at(ep.grid.times[t]),
                        "prefix_score": scores[i, t + 1], "earned": earned[i, t], "reward": total[i], "silent_reward": 0.375,
                        "advantage_global": a_global[i], "advantage_turn": a_turn[i, t], "flipped": flipped, "live": live,
                    }
                )  # fmt: skip
    return rows


def evidence_of(episodes: list[Episode], decisions: list[dict]) -> list[dict]:
    """What a judge would have left for those decisions: the highest level in a window, 1 where it repeats."""
    by_id, rows = {ep.id: ep for ep in episodes}, []
    for row in decisions:
        ep = by_id[row["episode"]]
        inside = ep.windows_at(row["time"]) if row["kind"] == "reply" else ()
        level = 1.0 if row["repeat"] else 4.0
        levels = [level if place in inside else None for place in range(len(ep.windows))]
        key = {name: row[name] for name in ("update", "episode", "trajectory", "turn", "kind", "outside")}
        repeat = None if row["repeat"] is None else float(row["repeat"])
        rows.append({**key, "levels": levels, "repeat": repeat})
    return rows


def metrics_of(arm: str, seed: int) -> dict:
    rng = np.random.default_rng([seed, len(arm)])
    pauc, repetition, f1, bench = np.array([(level := PAUC.get(arm, 50.0)), 8.0, level - 10, 50.0]) + rng.normal(
        0, 2, 4
    )
    counts = {"scored": 70, "expected": 72, "unit": "items", "repetition_of": 5 + seed}
    return {
        "pauc": pauc, "repetition": repetition, "timing_f1": f1, "streamingbench": bench,
        "benchmarks": {name: {"score": 0, **counts} for name in ("proactivevideoqa", "ovo_timing", "streamingbench")},
        "blind": {
            "silent": {"pauc": 25.0, "timing_f1": 0.0, "streamingbench": 12.5},
            "metronome": {"pauc": 25.9, "timing_f1": 21.0, "streamingbench": 14.0},
        },
        "judge": "rule-3", "protocol": {"inference": {"grid": {"frame_interval": 2.0}}, "ovo_timing": {"tolerance": 2.0}},
    }  # fmt: skip


def updates_of(arm: str, seed: int, updates: int) -> list[dict]:
    rng, rows = np.random.default_rng([seed, len(arm)]), []
    for u in range(1, updates + 1):
        rise = (PAUC.get(arm, 50.0) - 40) / 20 * (1 - np.exp(-3 * u / updates))
        shares = {"reply_rate": 0.2 + 0.1 * rise, "repeat_share": 0.3 - 0.1 * rise, "flip_share": 0.2}
        shares["warnings"] = "silence" if (arm, seed, u) == ("grpo", 1, 2) else None
        row = {"update": u, "alpha": 1.0, "reward": 0.4 + rise + rng.normal(0, 0.05), **shares}
        if u % max(1, updates // 4) == 0:
            row |= {"dev_reward": 0.5 + rise + rng.normal(0, 0.05), "dev_pauc": 0.4 + rise / 3}
        rows.append(row)
    return rows


def write_experiment(
    root: Path, params: Params, *, updates: int = 4, group: int = 4, said: str = "a dark striped disc"
) -> None:
    """Data, all cells, the catalogue and the timings of a finished experiment below `root`."""
    episodes = [episode(number) for number in range(2)]
    write_records(root / "data" / "rl.jsonl", episodes)
    for ep in episodes:
        frames = (np.full((56, 56, 3), shade % 256, dtype=np.uint8) for shade in range(0, 4 * 132, 4))
        (root / "data" / ep.clip).parent.mkdir(parents=True, exist_ok=True)
        write_clip(root / "data" / ep.clip, frames, fps=4)
    for arm in ("sft", *params.arms):
        for seed in params.seeds:
            cell = root / "runs" / arm / str(seed)
            decisions = decisions_of(episodes, seed, updates, group, said)
            table_of("decisions", decisions, cell / "decisions.parquet")
            table_of("evidence", evidence_of(episodes, decisions), cell / "evidence.parquet")
            write_json(cell / "eval" / "metrics.json", metrics_of(arm, seed))
            if arm != "sft":
                table_of("updates", updates_of(arm, seed, updates), cell / "updates.parquet")
                times = {"rollout": 0.7, "sweep": 0.1, "credit": 0.0, "learn": 0.8, "total": 1.6}
                lines = [{"update": u, **times} for u in range(1, updates + 1)]
                lines += [{"seconds": 7.0, "peak_mb": 800.0, "pid": 1}]
                path = root / "timings" / "rl" / f"{arm}-{seed}.jsonl"
                write_jsonl(path, lines)
    cells = [(arm, seed) for arm in ("sft", *params.arms) for seed in params.seeds]
    build_catalogue(root / "turnwise.duckdb", root, cells, TERMS)
