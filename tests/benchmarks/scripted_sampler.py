"""A policy that says what it is told to: a sampler without a model."""

from collections.abc import Callable

from turnwise.episodes import Episode
from turnwise.records import Action, Trajectory

SILENCE = Action((1, 2), (0.0, 0.0), "NO REPLY", "silence", False)
MALFORMED = Action((2,), (0.0,), "", "malformed", False)


def reply(text: str) -> Action:
    """A reply; its token ids stand for nothing."""
    return Action((7, 2), (0.0, 0.0), text, "reply", False)


class ScriptedSampler:
    """Takes the actions that `policy` gives for an episode, one a turn, and remembers how it was called."""

    def __init__(self, policy: Callable[[Episode], list[Action]]):
        self.policy, self.calls = policy, []

    def rollout(self, episodes, group_size, *, temperature, **_):
        """One trajectory for each episode and place in its group."""
        self.calls.append((len(episodes), group_size, temperature))
        return [Trajectory(e.id, i, tuple(self.policy(e))) for e in episodes for i in range(group_size)]
