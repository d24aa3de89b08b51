"""Figures of an update; docs/metrics.md describes each. Statistics count each trajectory or decision once."""

from collections.abc import Iterable, Sequence

import numpy as np

from turnwise.credit import advantage_figures
from turnwise.records import flipped
from turnwise.training.sweeping import Advantages, Swept


def swept_figures(swept: Sequence[Swept], credit: Sequence[Advantages], a_max: float) -> dict[str, float | None]:
    """What an update's roll-outs earned and did, and what their credit looks like."""
    live = [values for values in credit if values.live]
    mixed = [np.any(values.turn > 0, axis=1) & np.any(values.turn < 0, axis=1) for values in live]
    return {
        **behaviour(swept),
        "flip_share": _mean([flipped(values.global_, values.turn).ravel() for values in live]),
        "mixed_share": _mean(mixed),
        "zero_spread_share": 1 - len(live) / len(credit),
        **advantage_figures([values.used for values in credit if values.used is not None], a_max),
    }


def behaviour(swept: Sequence[Swept]) -> dict[str, float | None]:
    """Reward and its terms, how often the policy speaks, how long, and how often it says the same again."""
    evidence = [facts for one in swept for facts in one.evidence]
    lengths = [len(a.tokens) for one in swept for t in one.trajectories for a in t.actions if a.kind != "silence"]
    repeats = np.concatenate([facts.repeats for facts in evidence])
    return {
        "reward": _mean([one.group.rewards for one in swept]),
        **{f"reward_{name}": _mean([one.group.terms[name][:, -1] for one in swept]) for name in swept[0].group.terms},
        "reply_rate": _mean([facts.spoke for facts in evidence]),
        "reply_tokens": _mean([np.array(lengths)]),
        "repeat_share": _mean([repeats[~np.isnan(repeats)]]),
        "abstained_share": _mean([facts.abstained for facts in evidence]),
    }


def validation_figures(swept: Sequence[Swept], terms: Iterable[str]) -> dict[str, float | None]:
    """A point of the validation curve: greedy, one trajectory an episode; nulls when there is none."""
    sources = {"reward": "reward", **{term: f"reward_{term}" for term in terms}}
    sources |= {"repeat_share": "repeat_share", "reply_rate": "reply_rate"}
    figures = behaviour(swept) if swept else dict.fromkeys(sources.values())
    return {f"dev_{name}": figures[source] for name, source in sources.items()}


def _mean(parts: Sequence[np.ndarray]) -> float | None:
    """Mean over the concatenation; None of nothing."""
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if values.size else None
