"""The paper's numbers (arXiv 2611.06728, Qwen2.5-VL-3B), shown beside ours and always marked as published.

They come from another model, other videos and another judge: they are not comparable with a run of this project.
"""

from turnwise.config import Arm

SOURCE = (
    "arXiv 2611.06728, Qwen2.5-VL-3B; trained with gpt-oss-20b as judge, scored by GPT-5.6-luna, seeds not reported"
)

SIGN_FLIPS = {"decisions": 84184, "trajectories": 11116, "flip_share": 0.2120, "mixed_share": 0.5315}
"""Decisions whose advantage changes sign; trajectories with turns of both signs."""

REDUNDANCY = {"replies": 2972, "negative_global": 0.757, "negative_turn": 0.816}
"""Share of the replies judged repeated that get a negative advantage under each rule."""

_METRICS = ("pauc", "repetition", "timing_f1", "streamingbench")
_SFT = (28.74, 3.79, 0.57, 48.74)
_ABLATION = {
    ("grpo", 0.0, "seq-mean-token-mean"): (39.60, 6.08, 17.72, 47.64),
    ("grpo", 0.0, "turn-mean"): (41.87, 9.78, 8.17, 47.58),
    ("turnwise", 1.0, "seq-mean-token-mean"): (43.12, 15.53, 18.63, 48.94),
    ("turnwise", 1.0, "turn-mean"): (43.56, 5.98, 21.59, 49.43),
    ("turnwise", 0.25, "seq-mean-token-mean"): (44.50, None, 19.51, None),
}


def published(arm: Arm | None) -> dict[str, float | None]:
    """The paper's row, in percent, of the arm configured so (None: the supervised start); None where it has none.

    Ratio level and clips must be the paper's too, which are the defaults.
    """
    if arm is None:
        return dict(zip(_METRICS, _SFT, strict=True))
    as_published = arm == Arm(credit=arm.credit, alpha=arm.alpha, aggregation=arm.aggregation)
    known = _ABLATION if as_published else {}
    row = known.get((arm.credit, arm.alpha, arm.aggregation), (None,) * len(_METRICS))
    return dict(zip(_METRICS, row, strict=True))
