"""How sure a score is: a bootstrap interval, and a paired test of two sets of predictions on the same items.

Videos are what is drawn, within each subset, since the questions of one video go together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.benchmarks.items import Sample

DRAWS = 2000
SEED = 0
Array = NDArray[np.float64]


class Part(NamedTuple):
    """What one sample adds to its subset's score."""

    subset: str
    item: str
    clip: str
    parts: tuple[float, ...]


def parts_of(benchmark: ModuleType, samples: Iterable[Sample]) -> list[Part]:
    """The parts of samples, by `benchmark.parts`."""
    return [Part(s.item.subset, s.item.key, s.item.clip, tuple(map(float, benchmark.parts(s)))) for s in samples]


def interval(benchmark: ModuleType, parts: Sequence[Part]) -> dict[str, list[float] | None]:
    """95 % percentile intervals, percent, of the headline (`score`) and of each subset, over `DRAWS` bootstrap draws.

    None where there is no score. Seeded: the same parts give the same interval.
    """
    rng = np.random.default_rng(SEED)
    sums = _clusters(benchmark, [parts])
    shares = {name: _share(benchmark, _counts(rng, len(videos)) @ videos) for name, videos in sums.items()}
    score = headline(benchmark, shares) if shares.keys() == set(benchmark.SUBSETS) else None
    return {"score": _range(score)} | {name: _range(shares.get(name)) for name in benchmark.SUBSETS}


def headline(benchmark: ModuleType, shares: Mapping[str, Array]) -> Array:
    """The headline (0..1) from the shares of all subsets: the mean over groups of the mean over a group's subsets."""
    groups = [np.mean([shares[subset] for subset in group], axis=0) for group in benchmark.GROUPS]
    return np.asarray(np.mean(groups, axis=0))


@dataclass(frozen=True)
class Comparison:
    """Two sets of predictions on the same items, in percent."""

    first: float
    second: float
    difference: float
    """second - first"""
    interval: list[float] | None
    """95 % bootstrap interval of the difference."""
    p: float
    """Two-sided p-value of a permutation test that swaps the two, video by video."""
    items: int
    videos: int


def compare(benchmark: ModuleType, first: Sequence[Part], second: Sequence[Part]) -> Comparison | None:
    """Compare the headline of two sets of parts of the very same items; None where there is no headline."""
    rng = np.random.default_rng(SEED)
    sums = {subset: np.split(both, 2, axis=1) for subset, both in _clusters(benchmark, [first, second]).items()}
    if sums.keys() != set(benchmark.SUBSETS):
        return None

    def scores(weights: Mapping[str, Array], others: Mapping[str, Array]) -> Array:
        """The headline of the first set's videos by `weights` [..., videos] together with the second's by `others`."""
        mixed = {name: weights[name] @ one + others[name] @ other for name, (one, other) in sums.items()}
        return headline(benchmark, {name: _share(benchmark, totals) for name, totals in mixed.items()})

    all_of, none_of = ({name: np.full(len(one), value) for name, (one, _) in sums.items()} for value in (1.0, 0.0))
    counts = {name: _counts(rng, len(one)) for name, (one, _) in sums.items()}
    swaps = {name: rng.integers(0, 2, (DRAWS, len(one))).astype(float) for name, (one, _) in sums.items()}
    kept = {name: 1 - swapped for name, swapped in swaps.items()}
    a, b = float(scores(all_of, none_of)), float(scores(none_of, all_of))
    differences = scores(none_of, counts) - scores(counts, none_of)
    by_chance = scores(kept, swaps) - scores(swaps, kept)
    return Comparison(
        first=100 * a,
        second=100 * b,
        difference=100 * (b - a),
        interval=_range(differences),
        p=float((1 + (np.abs(by_chance) >= abs(b - a) - 1e-12).sum()) / (1 + DRAWS)),
        items=len(first),
        videos=sum(len(one) for one, _ in sums.values()),
    )


def _share(benchmark: ModuleType, totals: Array) -> Array:
    """A subset's share; NaN where a draw has nothing that was scored."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Array = benchmark.share(totals)
    return share


def _clusters(benchmark: ModuleType, sides: Sequence[Sequence[Part]]) -> dict[str, Array]:
    """Summed parts of each video [videos, K * sides] by subset, videos in order of first sight; empty subsets left out."""
    found: dict[str, dict[str, Any]] = {subset: {} for subset in benchmark.SUBSETS}
    for side, parts in enumerate(sides):
        for part in parts:
            zero = np.zeros((len(sides), len(part.parts)))
            found[part.subset].setdefault(part.clip, zero)[side] += part.parts
    return {subset: np.stack([sums.ravel() for sums in clips.values()]) for subset, clips in found.items() if clips}


def _counts(rng: np.random.Generator, size: int) -> Array:
    """How often each of `size` videos is drawn, [DRAWS, size]."""
    return rng.multinomial(size, np.full(size, 1 / size), DRAWS).astype(float)


def _range(values: Array | None) -> list[float] | None:
    if values is None or not np.isfinite(values).any():
        return None
    return [100 * float(edge) for edge in np.nanpercentile(values, [2.5, 97.5])]
