"""A policy small enough to know everything about: every group it can roll out, so the gradient that each rule expects.

Three turns; an action is a wait (1 token), a short reply (2) or a long one (3). The first token waits or replies, the
second chooses the length, the third closes a long reply and leaves no choice. Both choices have logits of their own at
each turn, before and after the first reply. The reward is no sum over turns: a gain for each reply, which depends on the
turn, less twice the share of replies that say what was said before.

`python tests/credit/toy_policy.py` prints the table of docs/method.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np
import torch

from turnwise.credit import anchors, estimators
from turnwise.objective import token_weights
from turnwise.records import Group

TURNS, GROUP = 3, 3
WAIT, SHORT, LONG = range(3)
LENGTHS = (1, 2, 3)
GAINS = np.array([[0.0, 0.2, -0.4], [0.0, 1.0, 1.5], [0.0, -0.3, 0.8]])
"""[T, action] what an action adds to the reward."""
MODES = ("seq-mean-token-sum", "token-mean", "seq-mean-token-mean", "turn-mean", "turn-sum-norm")
PLAIN = 1e12
"""An eps that makes the division by the deviation a division by a constant."""
SETTINGS: dict[str, tuple[str, dict[str, float]]] = {
    "rloo": ("rloo", {}),
    "dr_grpo": ("dr_grpo", {}),
    "grpo": ("grpo", {}),
    "turnwise, alpha 0.25": ("turnwise", {"alpha": 0.25}),
    "turnwise": ("turnwise", {"alpha": 1.0}),
    "turnwise, undivided": ("turnwise", {"alpha": 1.0, "eps": PLAIN, "a_max": np.inf}),
    "return_to_go, gamma 0.9": ("return_to_go", {"gamma": 0.9}),
    "difference": ("difference", {}),
    "mt_grpo": ("mt_grpo", {}),
    "gigpo": ("gigpo", {}),
    "gdpo": ("gdpo", {}),
}
"""Row of the table -> rule and its settings."""


@dataclass(frozen=True)
class Toy:
    """Every trajectory of the toy policy: what it does, how likely it is, and the slopes of its tokens' log-probs."""

    actions: np.ndarray
    """[N, T]"""
    probability: np.ndarray
    """[N]"""
    slopes: np.ndarray
    """[N, L, P] gradient of each token's log-prob by the logits; 0 where a row has no token."""
    terms: dict[str, np.ndarray]
    """[N, T + 1] prefix scores: gain, and minus the share of repeats."""

    @property
    def scores(self) -> np.ndarray:
        """[N, T + 1]"""
        return self.terms["gain"] + 2.0 * self.terms["repeats"]

    @property
    def gradient(self) -> np.ndarray:
        """[P] the gradient of the expected reward: sum over trajectories of p R grad log p."""
        return np.einsum("n,nlp->p", self.probability * self.scores[:, -1], self.slopes)


def toy(seed: int = 1) -> Toy:
    """The toy of a random policy."""
    logits = np.random.default_rng(seed).normal(0, 0.7, (TURNS, 2, 2, 2))  # turn, replied before, token, choice
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    actions = np.array(list(product(range(3), repeat=TURNS)))
    probability = np.ones(len(actions))
    slopes = np.zeros((len(actions), TURNS * 3, *logits.shape))
    for n, row in enumerate(actions):
        for t, action in enumerate(row):
            before = int((row[:t] != WAIT).any())
            choices = [int(action != WAIT)] + ([int(action == LONG)] if action != WAIT else [])
            for k, choice in enumerate(choices):
                probability[n] *= chances[t, before, k, choice]
                slopes[n, 3 * t + k, t, before, k] = np.eye(2)[choice] - chances[t, before, k]
    return Toy(actions, probability, slopes.reshape(len(actions), TURNS * 3, -1), prefix_terms(actions))


def prefix_terms(actions: np.ndarray) -> dict[str, np.ndarray]:
    """[N, T + 1] each: silence after turn t, the same reward."""
    gain, repeats = np.zeros((len(actions), TURNS + 1)), np.zeros((len(actions), TURNS + 1))
    for n, row in enumerate(actions):
        for cut in range(TURNS + 1):
            said = [a for a in row[:cut] if a != WAIT]
            gain[n, cut] = sum(GAINS[t, a] for t, a in enumerate(row[:cut]))
            again = sum(a in said[:k] for k, a in enumerate(said))
            repeats[n, cut] = -again / max(1, len(said))
    return {"gain": gain, "repeats": repeats}


def groups(toy: Toy) -> tuple[np.ndarray, np.ndarray]:
    """Members [M, G] of every group up to order, and their probabilities [M]."""
    members = np.array(list(combinations_with_replacement(range(len(toy.actions)), GROUP)))
    orders = [
        factorial(GROUP) / np.prod([factorial(c) for c in np.unique(row, return_counts=True)[1]]) for row in members
    ]
    return members, np.array(orders) * toy.probability[members].prod(1)


def advantages(toy: Toy, members: np.ndarray, rule: str, settings: dict[str, float]) -> np.ndarray:
    """[M, G, T] of every group."""
    tokens = [[[int(a)] for a in row] for row in toy.actions]
    terms = {name: term[members] for name, term in toy.terms.items()}
    group = Group(toy.scores[members], terms, {"gain": 1.0, "repeats": 2.0}, anchors(tokens)[members])
    keep = {} if rule in ("rloo", "dr_grpo") else {"zero_spread": "keep"} if "eps" in settings else {}
    return estimators()[rule](group, **settings, **keep).turn


def weights(toy: Toy, members: np.ndarray, mode: str) -> np.ndarray:
    """[M, G, L] token weights of every group as one optimizer step, times G: the scale of one trajectory."""
    lengths = np.array(LENGTHS)[toy.actions]
    mask = (np.arange(3) < lengths[..., None]).reshape(len(lengths), -1)
    turn_ids = torch.arange(TURNS).repeat_interleave(3).expand(GROUP, -1)
    each = [token_weights(torch.tensor(mask[row]), turn_ids, mode).numpy() for row in members]
    return GROUP * np.stack(each)


def estimates(toy: Toy, members: np.ndarray, advantage: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[M, P] the gradient that each group gives: mean over its trajectories of weight · advantage · slope."""
    pull = weight * np.repeat(advantage, 3, axis=-1)
    return np.einsum("mgl,mglp->mp", pull, toy.slopes[members]) / GROUP


def moments(estimate: np.ndarray, probability: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Angle in degrees between the expected and the true gradient; root of the variance over the expected length."""
    expected = probability @ estimate
    variance = probability @ ((estimate - expected) ** 2).sum(1)
    cosine = expected @ truth / np.linalg.norm(expected) / np.linalg.norm(truth)
    return float(np.degrees(np.arccos(min(1.0, cosine)))), float(np.sqrt(variance) / np.linalg.norm(expected))


def table(toy: Toy) -> Iterator[str]:
    """The lines of the table in docs/method.md."""
    members, probability = groups(toy)
    scales = {mode: weights(toy, members, mode) for mode in MODES}
    yield f"| | {' | '.join(f'`{mode}`' for mode in MODES)} |"
    yield "|---|" + "---|" * len(MODES)
    for name, (rule, settings) in SETTINGS.items():
        advantage = advantages(toy, members, rule, settings)
        found = [moments(estimates(toy, members, advantage, scales[m]), probability, toy.gradient) for m in MODES]
        yield f"| {name} | " + " | ".join(f"{angle:.1f}° · {noise:.2f}" for angle, noise in found) + " |"


if __name__ == "__main__":
    for line in table(toy()):
        print(line)
