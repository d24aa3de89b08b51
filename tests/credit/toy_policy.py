"""The table of docs/method.md: what each rule and aggregation expects of the toy policy. `python tests/credit/toy_policy.py`
prints it."""

from collections.abc import Iterator

import numpy as np

from turnwise.analysis.truth import Toy, make_toy

PLAIN = 1e12
"""An eps that makes the division by the deviation a division by a constant."""
UNDIVIDED = {"eps": PLAIN, "a_max": np.inf, "zero_spread": "keep"}
SETTINGS = {
    "rloo": ("rloo", {}),
    "dr_grpo": ("dr_grpo", {}),
    "grpo": ("grpo", {}),
    "turnwise, alpha 0.25": ("turnwise", {"alpha": 0.25}),
    "turnwise": ("turnwise", {"alpha": 1.0}),
    "turnwise, undivided": ("turnwise", {"alpha": 1.0, **UNDIVIDED}),
    "return_to_go, gamma 0.9": ("return_to_go", {"gamma": 0.9}),
    "difference": ("difference", {}),
    "mt_grpo": ("mt_grpo", {}),
    "gigpo": ("gigpo", {}),
    "gdpo": ("gdpo", {}),
}
"""Row of the table -> rule and its settings."""
MODES = ("seq-mean-token-sum", "token-mean", "seq-mean-token-mean", "turn-mean", "turn-sum-norm")


def table(toy: Toy) -> Iterator[str]:
    """The lines of the table."""
    yield f"| | {' | '.join(f'`{mode}`' for mode in MODES)} |"
    yield "|---|" + "---|" * len(MODES)
    weights = [toy.weights(mode) for mode in MODES]
    for name, (rule, settings) in SETTINGS.items():
        found = [toy.moments(toy.advantages(rule, settings), weight) for weight in weights]
        yield f"| {name} | " + " | ".join(f"{angle:.1f}° · {noise:.2f}" for angle, noise in found) + " |"


if __name__ == "__main__":
    for line in table(make_toy()):
        print(line)
