"""What roll-out, judging, rewards and credit hand to each other. Plain values; no I/O, no torch.

Shape letters: G trajectories of a group, T turns, W windows, K tokens of an action.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["silence", "reply", "malformed"]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Int = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Action:
    """What the policy sampled at a turn. Token ids are the truth; `text` is a view of them."""

    tokens: tuple[int, ...]
    """[K], as sampled: the end-of-turn token is the last one, unless the action was cut at the cap."""
    logprobs: tuple[float, ...]
    """[K], natural log, when sampled: after temperature and bans, before top-k and top-p."""
    text: str
    """What a reply says, without tags and thought; of a wait or a malformed action, all of it."""
    kind: Kind
    capped: bool
    """Cut at the token cap: the turn's closing tokens were added, not sampled, and are not trained."""
    thought_tokens: int = 0
    """How many of the tokens are the thought before what is said; 0 where the protocol has none."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The T turns of one roll-out: one action a decision time of the episode's grid."""

    episode: str
    index: int
    """i, the place in its group: 0..G-1."""
    actions: tuple[Action, ...]


def turns_taken(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """T of each episode by its id."""
    return {trajectory.episode: len(trajectory.actions) for trajectory in trajectories}


CHECKPOINTS = 3
"""Things that a rubric checks of a dialogue, each met or not."""


@dataclass(frozen=True)
class Asks:
    """What a reward has judged beside the facts that every evidence holds."""

    answers: Bool | None = None
    """[T, W] which windows the reply of a turn is judged against, inside them or not."""
    rubric: bool = False
    """Whether a rubric judges the dialogue up to each reply."""


@dataclass(frozen=True)
class Evidence:
    """The facts a reward needs, for each decision of one trajectory; a reward never asks a judge.

    Every fact at turn t depends on actions up to t only (prefix-causal). NaN in `levels` or `repeats` where
    `abstained` is set means that the judge gave no verdict; NaN elsewhere means that nothing was to be judged.
    """

    episode: str
    index: int
    kinds: tuple[Kind, ...]
    """[T]"""
    levels: Float
    """[T, W] judged level 0..levels-1 of the reply at t for window w; NaN: not in the window, silent, an exact
    duplicate of an earlier reply in this window, or abstained."""
    repeats: Float
    """[T] 1 where the reply says only what earlier replies (history included) said, else 0; NaN: silent or abstained."""
    outside: Bool
    """[T] a reply (or malformed action) in no window."""
    prefix_chars: Int
    """[T] longest common prefix, in characters, with any earlier reply (history included); 0 when silent."""
    abstained: Bool
    """[T] at least one verdict at this turn is missing."""
    answers: Float | None = None
    """[T, W] judged level of the reply at t for each window that the reward asked for (`Asks`), exact duplicates too; NaN:
    not asked, silent, malformed, or abstained. None: the reward asked for nothing."""
    rubric: Float | None = None
    """[T] of `CHECKPOINTS`, how many the dialogue up to turn t meets, judged by itself at each reply: 0 before any verdict,
    then the latest one. None: the reward asked for no rubric."""
    thought_tokens: Int | None = None
    """[T] tokens of the thought before the action."""

    @property
    def turns(self) -> int:
        """T"""
        return len(self.kinds)

    @property
    def spoke(self) -> Bool:
        """[T] not silent: replies and malformed actions."""
        return np.array(self.kinds, dtype=object) != "silence"


@dataclass(frozen=True)
class Group:
    """The G trajectories of one episode as prefix scores; leading batch dimensions are allowed.

    `scores[..., t]` is U[t]: the reward of the trajectory whose actions after turn t are silence; [0] is all-silent,
    [T] the trajectory's own.
    """

    scores: Float
    """[..., G, T + 1] weighted total."""
    terms: dict[str, Float] = field(default_factory=dict)
    """[..., G, T + 1] each, unweighted."""
    weights: dict[str, float] = field(default_factory=dict)
    anchor: Int | None = None
    """[..., G, T] hash of the actions before each turn, for rules that compare equal states."""

    @property
    def rewards(self) -> Float:
        """R [..., G]"""
        return self.scores[..., -1]

    @property
    def earned(self) -> Float:
        """C[t-1] = U[t-1] - U[0], [..., G, T]: what stood before each turn."""
        return self.scores[..., :-1] - self.scores[..., :1]

    @property
    def remaining(self) -> Float:
        """F[t] = R - U[t-1], [..., G, T]: what was left to earn at each turn."""
        return self.scores[..., -1:] - self.scores[..., :-1]


def flipped(advantage_global: Float, advantage_turn: Float) -> Bool:
    """[..., G, T] where A_global [..., G] and A_turn [..., G, T] have opposite signs; a zero never flips."""
    return np.sign(advantage_global)[..., None] * np.sign(advantage_turn) < 0
