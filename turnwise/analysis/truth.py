"""What an arm's credit rule and aggregation expect, against the true gradient of a policy small enough to enumerate.

Three turns; an action is a wait (1 token), a short reply (2) or a long one (3). The first token waits or replies, the
second chooses the length, the third closes a long reply and leaves no choice. Both choices have logits of their own at
each turn, before and after the first reply. The reward is no sum over turns: a gain for each reply, which depends on the
turn, less twice the share of replies that say what was said before. A group is 3 trajectories and one optimizer step.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from turnwise.config import Params
from turnwise.credit import anchors, estimators, keywords
from turnwise.records import Float, Group, Int

if TYPE_CHECKING:
    from turnwise.objective import Aggregation

TURNS, GROUP = 3, 3
WAIT, SHORT, LONG = range(3)
LENGTHS = np.array([1, 2, 3])
GAINS = np.array([[0.0, 0.2, -0.4], [0.0, 1.0, 1.5], [0.0, -0.3, 0.8]])
"""[T, action] what an action adds to the reward."""
REPEATS = 2.0
"""Weight of the share of repeats."""
UNBIASED = "rloo, seq-mean-token-sum"
"""The row to compare with: its gradient is the true one in expectation."""


def against_truth(params: Params) -> list[dict[str, Any]]:
    """One row an arm of `params`, and one of the unbiased estimate: `arm`, `credit`, `alpha`, `aggregation`, and of the
    gradient from one group `angle` and `noise` (`Toy.moments`; None for settings that refuse a group without spread,
    which the toy rolls out)."""
    shared = params.credit.model_dump()
    rows: dict[str, tuple[str, dict[str, Any], Aggregation]] = {UNBIASED: ("rloo", {}, "seq-mean-token-sum")}
    for name, arm in params.arms.items():
        settings = {**shared, "alpha": arm.alpha, "gamma": arm.gamma, "turn_weight": arm.turn_weight}
        taken = {key: settings[key] for key in keywords(estimators()[arm.credit])}
        rows[name] = (arm.credit, taken, arm.aggregation)
    toy, found = make_toy(), []
    weights = {aggregation: toy.weights(aggregation) for *_, aggregation in rows.values()}
    for name, (rule, settings, aggregation) in rows.items():
        angle: float | None = None
        noise: float | None = None
        with suppress(ValueError):
            angle, noise = toy.moments(toy.advantages(rule, settings), weights[aggregation])
        about = {"arm": name, "credit": rule, "alpha": settings.get("alpha"), "aggregation": aggregation}
        found.append({**about, "angle": angle, "noise": noise})
    return found


@dataclass(frozen=True)
class Toy:
    """Every trajectory of the policy, and every group of them."""

    actions: Int
    """[N, T]"""
    probability: Float
    """[N]"""
    slopes: Float
    """[N, L, P] gradient of each token's log-prob by the logits; 0 where a row has no token."""
    terms: Mapping[str, Float]
    """[N, T + 1] prefix scores: gain, and minus the share of repeats."""
    members: Int
    """[M, G] trajectories of every group, up to order."""
    chances: Float
    """[M] probability of each group."""

    @property
    def scores(self) -> Float:
        """[N, T + 1] reward where silence follows turn t."""
        return np.asarray(self.terms["gain"] + REPEATS * self.terms["repeats"])

    @property
    def gradient(self) -> Float:
        """[P] the gradient of the expected reward: sum over trajectories of p R grad log p."""
        return np.asarray(np.einsum("n,nlp->p", self.probability * self.scores[:, -1], self.slopes))

    def advantages(self, rule: str, settings: Mapping[str, Any]) -> Float:
        """[M, G, T] advantages of every group by a credit rule."""
        tokens = [[[int(action)] for action in row] for row in self.actions]
        terms = {name: term[self.members] for name, term in self.terms.items()}
        weights = {"gain": 1.0, "repeats": REPEATS}
        group = Group(self.scores[self.members], terms, weights, anchors(tokens)[self.members])
        return np.asarray(estimators()[rule](group, **settings).turn)

    def weights(self, aggregation: "Aggregation") -> Float:
        """[M, G, L] token weights of every group, times G: the scale of one trajectory."""
        from turnwise.objective import token_weights  # brings torch, which takes seconds

        lengths = LENGTHS[self.actions]
        mask = (np.arange(3) < lengths[..., None]).reshape(len(lengths), -1)
        turn_ids = np.tile(np.repeat(np.arange(TURNS), 3), (GROUP, 1))
        return GROUP * np.stack([token_weights(mask[group], turn_ids, aggregation).numpy() for group in self.members])

    def estimates(self, advantages: Float, weights: Float) -> Float:
        """[M, P] the gradient that each group gives: mean over its trajectories of weight · advantage · slope."""
        pull = weights * np.repeat(advantages, 3, axis=-1)
        return np.asarray(np.einsum("mgl,mglp->mp", pull, self.slopes[self.members]) / GROUP)

    def moments(self, advantages: Float, weights: Float) -> tuple[float, float]:
        """Angle in degrees between the expected and the true gradient; root of the variance over the expected length."""
        estimates = self.estimates(advantages, weights)
        expected = self.chances @ estimates
        variance = self.chances @ ((estimates - expected) ** 2).sum(1)
        cosine = expected @ self.gradient / np.linalg.norm(expected) / np.linalg.norm(self.gradient)
        return float(np.degrees(np.arccos(min(1.0, cosine)))), float(np.sqrt(variance) / np.linalg.norm(expected))


def make_toy(seed: int = 1) -> Toy:
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
    flat = slopes.reshape(len(actions), TURNS * 3, -1)
    return Toy(actions, probability, flat, _prefix_terms(actions), *_groups(probability))


def _prefix_terms(actions: Int) -> dict[str, Float]:
    """[N, T + 1] each: silence after turn t, the same reward."""
    gain, repeats = np.zeros((len(actions), TURNS + 1)), np.zeros((len(actions), TURNS + 1))
    for n, row in enumerate(actions):
        for cut in range(TURNS + 1):
            said = [a for a in row[:cut] if a != WAIT]
            gain[n, cut] = sum(GAINS[t, a] for t, a in enumerate(row[:cut]))
            again = sum(a in said[:k] for k, a in enumerate(said))
            repeats[n, cut] = -again / max(1, len(said))
    return {"gain": gain, "repeats": repeats}


def _groups(probability: Float) -> tuple[Int, Float]:
    """Members [M, G] of every group up to order, and their probabilities [M]."""
    members = np.array(list(combinations_with_replacement(range(len(probability)), GROUP)))
    counts = [np.unique(row, return_counts=True)[1].tolist() for row in members]
    orders = [factorial(GROUP) / np.prod([factorial(c) for c in count]) for count in counts]
    return members, np.array(orders) * probability[members].prod(1)
