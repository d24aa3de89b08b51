"""The benchmarks by name."""

from types import ModuleType

from turnwise.benchmarks import proactivevideoqa, streamingbench
from turnwise.benchmarks.ovo import accuracy, timing
from turnwise.errors import UserError

BENCHMARKS: dict[str, ModuleType] = {
    module.NAME: module for module in (proactivevideoqa, timing, accuracy, streamingbench)
}
"""Each has NAME, FOLDER, SUBSETS, GROUPS; `load(places)`; `episode(item, stream, duration)`;
`score(items, predictions, ...)` and `protocol(...)` with its choices as keywords; `parts(sample)` and `share(sums)`."""


def benchmark(name: str) -> ModuleType:
    """The benchmark of that name. Raises UserError listing the names."""
    if name not in BENCHMARKS:
        raise UserError(f"--benchmark: {name!r} is none of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
