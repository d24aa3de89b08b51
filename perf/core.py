"""The library's numeric core against its own slow way, in one run: the sweep, and the memory of the credit rules."""

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from turnwise.credit import estimators
from turnwise.episodes import Episode, Grid, Window
from turnwise.records import Evidence, Float, Group
from turnwise.rewards import MMDuet2

TRAJECTORIES = 512
REWARD = MMDuet2({"pauc": 3.0, "repetition": 2.0, "outside": 0.5, "prefix": 2.0}, top=4, omega=0.5, prefix_chars=50)


def sweeping() -> None:
    """Seconds of the sweep by T, against scoring each prefix of each trajectory by the same reward."""
    kind = "groups of 8, 4 windows, a third of the turns replies"
    print(f"\nsweep of {TRAJECTORIES} trajectories ({kind}), CPU seconds, best of 5")
    print("     T     scan s   decisions/s    slow s   (measured on)   times faster")
    for turns in (8, 64, 512):
        episodes = [episode(turns) for _ in range(TRAJECTORIES // 8)]
        judged = [(episodes[seed // 8], evidence(turns, seed)) for seed in range(TRAJECTORIES)]
        fast = min(seconds(lambda judged=judged: REWARD.batch_terms(judged)) for _ in range(5))
        some = judged[: max(16, TRAJECTORIES * 8 // turns)]
        slow = seconds(lambda some=some: [scored_prefix_by_prefix(*one) for one in some]) * TRAJECTORIES / len(some)
        rate = TRAJECTORIES * turns / fast
        measured = f"{len(some):5d} of {TRAJECTORIES}"
        print(f"  {turns:4d}  {fast:9.5f}  {rate:12,.0f}  {slow:8.2f}   {measured}  {slow / fast:12.0f}")


def crediting() -> None:
    """Seconds and peak memory of each rule on ten million decisions in one call."""
    scores = np.random.default_rng(0).normal(size=(20_000, 8, 64))
    scores = np.concatenate([np.zeros((*scores.shape[:2], 1)), scores[..., :63].cumsum(-1)], -1)
    anchor = np.random.default_rng(1).integers(0, 9, (*scores.shape[:2], 63))
    group = Group(scores, {"pauc": scores}, {"pauc": 1.0}, anchor)
    print(f"\ncredit of {anchor.size:,} decisions in one call; memory with the scores, as a multiple of them")
    for name, rule in sorted(estimators().items()):
        spent = seconds(lambda rule=rule: rule(group))
        tracemalloc.start()
        rule(group)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {name:14s} {spent:6.2f} s   {1 + peak / scores.nbytes:4.1f} times")


def seconds(work: Callable[[], object]) -> float:
    """Seconds of one core that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def episode(turns: int) -> Episode:
    """An episode of T turns with four windows, a twelfth of it each."""
    spans = [(2 * turns * k / 4, 2 * turns * (k / 4 + 1 / 12)) for k in range(4)]
    windows = tuple(Window(text="x", related=span, reply=span) for span in spans)
    return Episode(
        id="e", clip="e.mp4", task="t", grid=Grid(frame_interval=2.0, turns=turns), queries=(), windows=windows
    )


def evidence(turns: int, seed: int) -> Evidence:
    """Random evidence: a third of the turns are replies, a fifth of them repeats."""
    rng = np.random.default_rng(seed)
    spoke = rng.random(turns) < 1 / 3
    spans = np.array([window.reply for window in episode(turns).windows])
    times = 2.0 * np.arange(1, turns + 1)[:, None]
    inside = (times >= spans[:, 0]) & (times <= spans[:, 1]) & spoke[:, None]
    return Evidence(
        episode="e",
        index=seed,
        kinds=tuple("reply" if said else "silence" for said in spoke),
        levels=np.where(inside, rng.integers(0, 5, inside.shape), np.nan),
        repeats=np.where(spoke, rng.random(turns) < 0.2, np.nan),
        outside=spoke & ~inside.any(1),
        prefix_chars=np.where(spoke, rng.integers(0, 80, turns), 0),
        abstained=np.zeros(turns, bool),
    )


def scored_prefix_by_prefix(episode: Episode, evidence: Evidence) -> list[dict[str, Float]]:
    """The slow way: silence what follows turn t, score the whole trajectory again, for every t."""
    return [REWARD.prefix_terms(episode, silenced(evidence, turn)) for turn in range(episode.turns + 1)]


def silenced(evidence: Evidence, turn: int) -> Evidence:
    """The evidence of the trajectory whose actions after `turn` are silence."""
    late = np.arange(evidence.turns) >= turn
    return replace(
        evidence,
        kinds=evidence.kinds[:turn] + ("silence",) * (evidence.turns - turn),
        levels=np.where(late[:, None], np.nan, evidence.levels),
        repeats=np.where(late, np.nan, evidence.repeats),
        outside=evidence.outside & ~late,
        prefix_chars=np.where(late, 0, evidence.prefix_chars),
    )


if __name__ == "__main__":
    sweeping()
    crediting()
