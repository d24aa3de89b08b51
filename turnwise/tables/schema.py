"""The columns of every table: type, unit and meaning. docs/tables.md is generated from here (a test holds them equal).

A nullable column says in its meaning when it is null. Times are seconds from the start of the clip; updates and turns count
from 1.
"""

import pyarrow as pa

INT, FLOAT, BOOL, TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.string()


def _column(name: str, kind: pa.DataType, unit: str, meaning: str, *, null: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"unit": unit, "meaning": meaning})


def _shares(*columns: tuple[str, str]) -> list[pa.Field]:
    return [_column(name, FLOAT, "share 0..1", meaning, null=True) for name, meaning in columns]


UPDATE = _column("update", INT, "count", "Update, from 1; 1 for tables of `sft`.")
GROUP_KEY = [
    UPDATE,
    _column("episode", TEXT, "-", "Episode id; with `update` it names the group."),
]
TRAJECTORY = _column("trajectory", INT, "index", "Place of the trajectory in its group, from 0.")
TURN = _column("turn", INT, "index", "Decision, from 1.")
KIND = _column("kind", TEXT, "-", "`silence`, `reply` or `malformed`.")

TRAJECTORIES = pa.schema(
    [
        *GROUP_KEY,
        TRAJECTORY,
        _column("tokens", pa.list_(pa.list_(INT)), "token id", "Sampled token ids of each turn."),
        _column("logprobs", pa.list_(pa.list_(FLOAT)), "nat", "Log-probability of each token when it was sampled."),
        _column("text", pa.list_(TEXT), "-", "Text of each turn's action."),
        _column("kind", pa.list_(TEXT), "-", "`silence`, `reply` or `malformed`, for each turn."),
        _column("capped", pa.list_(BOOL), "-", "For each turn: the action was cut at the token cap."),
    ]
)

EVIDENCE = pa.schema(
    [
        *GROUP_KEY,
        TRAJECTORY,
        TURN,
        KIND,
        _column("levels", pa.list_(FLOAT), "level", "Judged level for each window; null inside where none was judged."),
        _column(
            "repeat",
            FLOAT,
            "0 or 1",
            "1: the reply says only what earlier replies said; null: silent or abstained.",
            null=True,
        ),
        _column("outside", BOOL, "-", "A reply, or a malformed action, in no window."),
        _column("prefix_chars", INT, "characters", "Longest common prefix with any earlier reply; 0 when silent."),
        _column("abstained", BOOL, "-", "A verdict of this decision is missing."),
    ]
)

DECISIONS = pa.schema(
    [
        *GROUP_KEY,
        _column("task", TEXT, "-", "Kind of the episode."),
        TRAJECTORY,
        TURN,
        _column("time", FLOAT, "s", "Decision time."),
        KIND,
        _column("text", TEXT, "-", "What was said; the text of a wait for silence."),
        _column("tokens", INT, "tokens", "Sampled tokens of the action."),
        _column("repeat", BOOL, "-", "The reply only repeats earlier ones; null: silent or abstained.", null=True),
        _column("outside", BOOL, "-", "A reply, or a malformed action, in no window."),
        _column("abstained", BOOL, "-", "A verdict of this decision is missing."),
        _column("prefix_score", FLOAT, "reward", "U[t]: reward if every later action were silence."),
        _column("earned", FLOAT, "reward", "C = U[t-1] - U[0]: earned before this decision."),
        _column("remaining", FLOAT, "reward", "F = R - U[t-1]: earned from this decision on."),
        _column("reward", FLOAT, "reward", "R = U[T] of the trajectory."),
        _column("silent_reward", FLOAT, "reward", "U[0]: reward of saying nothing; one number a group."),
        _column("silent_pauc", FLOAT, "reward term", "PAUC term of U[0], unweighted."),
        _column("silent_repetition", FLOAT, "reward term", "Repetition term of U[0], unweighted."),
        _column("silent_outside", FLOAT, "reward term", "Outside term of U[0], unweighted."),
        _column("silent_prefix", FLOAT, "reward term", "Common-prefix term of U[0], unweighted."),
        _column("term_pauc", FLOAT, "reward term", "PAUC term of U[t], unweighted."),
        _column("term_repetition", FLOAT, "reward term", "Repetition term of U[t], unweighted; a penalty is negative."),
        _column("term_outside", FLOAT, "reward term", "Outside term of U[t], unweighted; a penalty is negative."),
        _column("term_prefix", FLOAT, "reward term", "Common-prefix term of U[t], unweighted; a penalty is negative."),
        _column("advantage_global", FLOAT, "advantage", "A_global: GRPO's, one number a trajectory."),
        _column("advantage_turn", FLOAT, "advantage", "A_turn: TurnWise's at alpha = 1, clipped."),
        _column("advantage_used", FLOAT, "advantage", "What the arm's loss used; null for `sft`.", null=True),
        _column(
            "flipped",
            BOOL,
            "-",
            "A_global and A_turn have opposite signs (a zero never flips); null: group dropped.",
            null=True,
        ),
        _column("live", BOOL, "-", "The group was learned from; false: dropped for zero spread."),
    ]
)

UPDATES = pa.schema(
    [
        UPDATE,
        _column("alpha", FLOAT, "share 0..1", "Alpha of this update, after warm-up."),
        _column("reward", FLOAT, "reward", "Mean R over trajectories, sampled before the update.", null=True),
        _column("reward_pauc", FLOAT, "reward term", "Mean PAUC term, unweighted.", null=True),
        _column("reward_repetition", FLOAT, "reward term", "Mean repetition term, unweighted.", null=True),
        _column("reward_outside", FLOAT, "reward term", "Mean outside term, unweighted.", null=True),
        _column("reward_prefix", FLOAT, "reward term", "Mean common-prefix term, unweighted.", null=True),
        *_shares(("reply_rate", "Decisions that are not silent.")),
        _column("reply_tokens", FLOAT, "tokens", "Mean tokens of a reply; null without one.", null=True),
        *_shares(
            ("repeat_share", "Replies judged that only repeat; null without one."),
            ("flip_share", "Decisions of live groups that are flipped."),
            ("mixed_share", "Trajectories of live groups with turn advantages of both signs."),
            ("zero_spread_share", "Groups without reward spread."),
            ("abstained_share", "Decisions with a missing verdict."),
        ),
        _column("advantage_mean", FLOAT, "advantage", "Mean advantage used over decisions.", null=True),
        _column("advantage_std", FLOAT, "advantage", "Its standard deviation.", null=True),
        *_shares(
            ("advantage_clipped_share", "Decisions whose advantage was clipped at a_max."),
            ("clip_low_share", "Action tokens whose ratio was clipped from below."),
            ("clip_high_share", "Action tokens whose ratio was clipped from above."),
            ("dual_clip_share", "Action tokens on which the dual clip acted."),
        ),
        _column(
            "approx_kl",
            FLOAT,
            "nat",
            "KL (k3) of the policy from the sampling one before each optimizer step, mean over steps.",
            null=True,
        ),
        _column("entropy", FLOAT, "nat", "Mean entropy of a sampled token.", null=True),
        _column("grad_norm", FLOAT, "-", "Gradient norm before clipping, mean over optimizer steps.", null=True),
        _column("loss", FLOAT, "-", "Policy loss, mean over optimizer steps.", null=True),
        _column("ratio_max", FLOAT, "-", "Largest probability ratio.", null=True),
        _column("logprob_gap", FLOAT, "nat", "Largest gap of roll-out and training log-probability.", null=True),
        _column("learning_rate", FLOAT, "-", "Learning rate of the last optimizer step."),
        _column(
            "dev_reward",
            FLOAT,
            "reward",
            "Greedy development reward after the update; null: not validated.",
            null=True,
        ),
        _column("dev_pauc", FLOAT, "reward term", "Greedy PAUC term there; null: not validated.", null=True),
        *_shares(
            ("dev_repeat_share", "Greedy replies there that only repeat; null: none or not validated."),
            ("dev_reply_rate", "Greedy decisions there that are not silent; null: not validated."),
        ),
    ]
)

SAMPLES = pa.schema(
    [
        _column("benchmark", TEXT, "-", "`proactivevideoqa`, `ovo_timing` or `streamingbench`."),
        _column("subset", TEXT, "-", "Part of the benchmark, as it names it."),
        _column("item", TEXT, "-", "Item id, unique in its subset."),
        _column("query_time", FLOAT, "s", "When the question was asked; null where the item has several.", null=True),
        _column("score", FLOAT, "share 0..1", "Score of the item; null where it was not scored.", null=True),
        _column("scored", BOOL, "-", "The item counts in the benchmark's score."),
        _column("replies", INT, "replies", "Replies given to the item."),
        _column("detail", TEXT, "JSON", "What the score is made of; keys differ by benchmark."),
    ]
)

SCHEMAS: dict[str, pa.Schema] = {
    "trajectories": TRAJECTORIES,
    "evidence": EVIDENCE,
    "decisions": DECISIONS,
    "updates": UPDATES,
    "samples": SAMPLES,
}
"""Every table by name; each field carries `unit` and `meaning` as metadata."""

KEYS: dict[str, tuple[str, ...]] = {
    "trajectories": ("update", "episode", "trajectory"),
    "evidence": ("update", "episode", "trajectory", "turn"),
    "decisions": ("update", "episode", "trajectory", "turn"),
    "updates": ("update",),
    "samples": ("benchmark", "subset", "item"),
}
"""What each table is sorted by; a key names one row."""

PLACES: dict[str, str] = {name: f"eval/{name}.parquet" if name == "samples" else f"{name}.parquet" for name in SCHEMAS}
"""Where a table lies below `runs/<arm>/<seed>`."""


def sql_type(kind: pa.DataType) -> str:
    """The DuckDB type of a column's type, e.g. `bigint[][]`."""
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    return {INT: "bigint", FLOAT: "double", BOOL: "boolean", TEXT: "varchar"}[kind]
