"""The section `reward`: one form for each rule that `reward.name` may name."""

from typing import Annotated, Literal

from pydantic import Field

from turnwise.config.fields import Count, NonNegative, Positive, Section, Share


class MMDuet2Reward(Section):
    """MMDuet2's four terms, arXiv 2512.06810 section 4.3.2."""

    name: Literal["mmduet2"]
    """Reward rule."""
    variant: Literal["paper", "released"] = "paper"
    """The definitions of the paper, or of its released code where they differ (docs/method.md)."""
    pauc: NonNegative
    """Weight of PAUC."""
    repetition: NonNegative
    """Weight of the repetition penalty."""
    outside: NonNegative
    """Weight of the penalty for replies outside every window."""
    prefix: NonNegative
    """Weight of the penalty for long common prefixes."""
    omega: Share
    """PAUC's trade of timeliness (0) for correctness (1)."""
    prefix_chars: Count
    """Characters of a common prefix that counts as long."""

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each term."""
        return {"pauc": self.pauc, "repetition": self.repetition, "outside": self.outside, "prefix": self.prefix}


class ThinkStreamReward(Section):
    """ThinkStream's terms (arXiv 2603.12938): three of the paper, and a fourth that its code alone has."""

    name: Literal["thinkstream"]
    """Reward rule."""
    format: NonNegative
    """Weight of the share of well-formed actions."""
    time: NonNegative
    """Weight of how close in time the first answer to each window is."""
    correctness: NonNegative
    """Weight of the share of windows whose first answer is right."""
    efficiency: NonNegative
    """Weight of the code-only term for thoughts long enough and answers few enough; 0 leaves the term out."""
    slack: NonNegative
    """Seconds about the start of a window within which an answer is in time."""
    decay_turns: Count
    """Turns beyond the slack over which the time score falls to 0."""

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each term."""
        weights = {"format": self.format, "time": self.time, "correctness": self.correctness}
        return weights | ({"efficiency": self.efficiency} if self.efficiency else {})


class StreamProReward(Section):
    """StreamPro's three terms (arXiv 2605.16381)."""

    name: Literal["streampro"]
    """Reward rule."""
    format: NonNegative
    """Weight of the share of well-formed actions."""
    turn: NonNegative
    """Weight of the F1 of replies matched to windows by time, 0 to 2."""
    rubric: NonNegative
    """Weight of the share of a rubric's checkpoints that the dialogue meets; 0 leaves the term out."""
    reach: Positive
    """Seconds about the start of a window within which a reply may be matched to it."""
    judged: Literal["prefix", "trajectory"]
    """The rubric is judged once for each reply, on the dialogue up to it, or once a trajectory, which rules that need
    prefix scores refuse."""

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each term."""
        return {"format": self.format, "turn": self.turn} | ({"rubric": self.rubric} if self.rubric else {})


Reward = Annotated[MMDuet2Reward | ThinkStreamReward | StreamProReward, Field(discriminator="name")]
