"""The columns of every table: type, unit and meaning. docs/tables.md is generated from here (a test holds them equal).

A nullable column says in its meaning when it is null. Times are seconds from the start of the clip; updates and turns count
from 1. A column whose name holds `<term>` stands for one column a term of the reward: `schema_of` spells them out.
"""

from collections.abc import Iterable

import pyarrow as pa

INT, FLOAT, BOOL, TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.string()


def column(name: str, kind: pa.DataType, unit: str, meaning: str, *, null: bool = False) -> pa.Field:
    """A column with what docs/tables.md says of it."""
    return pa.field(name, kind, nullable=null, metadata={"unit": unit, "meaning": meaning})


def _shares(*columns: tuple[str, str]) -> list[pa.Field]:
    return [column(name, FLOAT, "share 0..1", meaning, null=True) for name, meaning in columns]


UPDATE = column("update", INT, "count", "Update, from 1; 1 for tables of `sft`.")
GROUP_KEY = [
    UPDATE,
    column("episode", TEXT, "-", "Episode id; with `update` it names the group."),
]
TRAJECTORY = column("trajectory", INT, "index", "Place of the trajectory in its group, from 0.")
TURN = column("turn", INT, "index", "Decision, from 1.")
KIND = column("kind", TEXT, "-", "`silence`, `reply` or `malformed`.")

TRAJECTORIES = pa.schema(
    [
        *GROUP_KEY,
        TRAJECTORY,
        column("tokens", pa.list_(pa.list_(INT)), "token id", "Sampled token ids of each turn."),
        column("logprobs", pa.list_(pa.list_(FLOAT)), "nat", "Log-probability of each token when it was sampled."),
        column("text", pa.list_(TEXT), "-", "Text of each turn's action."),
        column("kind", pa.list_(TEXT), "-", "`silence`, `reply` or `malformed`, for each turn."),
        column("capped", pa.list_(BOOL), "-", "For each turn: the action was cut at the token cap."),
        column("thought_tokens", pa.list_(INT), "tokens", "Tokens of the thought before each turn's action."),
    ]
)

EVIDENCE = pa.schema(
    [
        *GROUP_KEY,
        TRAJECTORY,
        TURN,
        KIND,
        column("levels", pa.list_(FLOAT), "level", "Judged level for each window; null inside where none was judged."),
        column(
            "repeat",
            FLOAT,
            "0 or 1",
            "1: the reply says only what earlier replies said; null: silent or abstained.",
            null=True,
        ),
        column("outside", BOOL, "-", "A reply, or a malformed action, in no window."),
        column("prefix_chars", INT, "characters", "Longest common prefix with any earlier reply; 0 when silent."),
        column("abstained", BOOL, "-", "A verdict of this decision is missing."),
        column(
            "answers",
            pa.list_(FLOAT),
            "level",
            "Level for each window that the reward asked for, inside it or not; null: it asks for none.",
            null=True,
        ),
        column(
            "rubric",
            FLOAT,
            "checkpoints",
            "How many the dialogue up to here meets, as last judged; null: the reward asks for none.",
            null=True,
        ),
        column(
            "thought_tokens", INT, "tokens", "Tokens of the thought before the action; null: not collected.", null=True
        ),
    ]
)

DECISIONS = pa.schema(
    [
        *GROUP_KEY,
        column("task", TEXT, "-", "Kind of the episode."),
        TRAJECTORY,
        TURN,
        column("time", FLOAT, "s", "Decision time."),
        KIND,
        column("text", TEXT, "-", "What was said; the text of a wait for silence."),
        column("tokens", INT, "tokens", "Sampled tokens of the action."),
        column("repeat", BOOL, "-", "The reply only repeats earlier ones; null: silent or abstained.", null=True),
        column("outside", BOOL, "-", "A reply, or a malformed action, in no window."),
        column("abstained", BOOL, "-", "A verdict of this decision is missing."),
        column("prefix_score", FLOAT, "reward", "U[t]: reward if every later action were silence."),
        column("earned", FLOAT, "reward", "C = U[t-1] - U[0]: earned before this decision."),
        column("remaining", FLOAT, "reward", "F = R - U[t-1]: earned from this decision on."),
        column("reward", FLOAT, "reward", "R = U[T] of the trajectory."),
        column("silent_reward", FLOAT, "reward", "U[0]: reward of saying nothing; one number a group."),
        column("silent_<term>", FLOAT, "reward term", "<term> of U[0], unweighted."),
        column("term_<term>", FLOAT, "reward term", "<term> of U[t], unweighted; a penalty is negative."),
        column("advantage_global", FLOAT, "advantage", "A_global: GRPO's, one number a trajectory."),
        column("advantage_turn", FLOAT, "advantage", "A_turn: TurnWise's at alpha = 1, clipped."),
        column("advantage_used", FLOAT, "advantage", "What the arm's loss used; null for `sft`.", null=True),
        column(
            "flipped",
            BOOL,
            "-",
            "A_global and A_turn have opposite signs (a zero never flips); null: group dropped.",
            null=True,
        ),
        column("live", BOOL, "-", "The group was learned from; false: dropped for zero spread."),
    ]
)

UPDATES = pa.schema(
    [
        UPDATE,
        column("alpha", FLOAT, "share 0..1", "Alpha of this update, after warm-up."),
        column("reward", FLOAT, "reward", "Mean R over trajectories, sampled before the update.", null=True),
        column("reward_<term>", FLOAT, "reward term", "Mean of <term>, unweighted.", null=True),
        *_shares(("reply_rate", "Decisions that are not silent.")),
        column("reply_tokens", FLOAT, "tokens", "Mean tokens of a reply; null without one.", null=True),
        *_shares(
            ("repeat_share", "Replies judged that only repeat; null without one."),
            ("flip_share", "Decisions of live groups that are flipped."),
            ("mixed_share", "Trajectories of live groups with turn advantages of both signs."),
            ("zero_spread_share", "Groups without reward spread."),
            ("abstained_share", "Decisions with a missing verdict, of trajectories that were not dropped for it."),
        ),
        column("dropped_trajectories", INT, "trajectories", "Left out of group statistics for a missing verdict."),
        column("advantage_mean", FLOAT, "advantage", "Mean advantage used over decisions.", null=True),
        column("advantage_std", FLOAT, "advantage", "Its standard deviation.", null=True),
        *_shares(
            ("advantage_clipped_share", "Decisions whose advantage was clipped at a_max."),
            ("clip_low_share", "Action tokens whose ratio was clipped from below."),
            ("clip_high_share", "Action tokens whose ratio was clipped from above."),
            ("dual_clip_share", "Action tokens on which the dual clip acted."),
        ),
        column(
            "approx_kl",
            FLOAT,
            "nat",
            "KL (k3) of the policy from the sampling one before each optimizer step, mean over steps.",
            null=True,
        ),
        column("entropy", FLOAT, "nat", "Mean entropy of a sampled token.", null=True),
        column("grad_norm", FLOAT, "-", "Gradient norm before clipping, mean over optimizer steps.", null=True),
        column("loss", FLOAT, "-", "Policy loss, mean over optimizer steps.", null=True),
        column("skipped_steps", INT, "steps", "Optimizer steps left out: loss or gradient was not finite."),
        column("ratio_max", FLOAT, "-", "Largest probability ratio.", null=True),
        column("logprob_gap", FLOAT, "nat", "Largest gap of roll-out and training log-probability.", null=True),
        column("learning_rate", FLOAT, "-", "Learning rate of the last optimizer step."),
        column(
            "dev_reward",
            FLOAT,
            "reward",
            "Greedy development reward after the update; null: not validated.",
            null=True,
        ),
        column("dev_<term>", FLOAT, "reward term", "Greedy mean of <term> there; null: not validated.", null=True),
        *_shares(
            ("dev_repeat_share", "Greedy replies there that only repeat; null: none or not validated."),
            ("dev_reply_rate", "Greedy decisions there that are not silent; null: not validated."),
        ),
        column("warnings", TEXT, "-", "What has collapsed, by name (docs/metrics.md); null: nothing.", null=True),
    ]
)

SAMPLES = pa.schema(
    [
        column("benchmark", TEXT, "-", "`proactivevideoqa`, `ovo_timing` or `streamingbench`."),
        column("subset", TEXT, "-", "Part of the benchmark, as it names it."),
        column("item", TEXT, "-", "Item id, unique in its subset."),
        column("query_time", FLOAT, "s", "When the question was asked; null where the item has several.", null=True),
        column("score", FLOAT, "share 0..1", "Score of the item; null where it was not scored.", null=True),
        column("scored", BOOL, "-", "The item counts in the benchmark's score."),
        column("replies", INT, "replies", "Replies given to the item."),
        column("detail", TEXT, "JSON", "What the score is made of; keys differ by benchmark."),
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

TERM = "<term>"
TERMS: dict[str, str] = {
    "pauc": "PAUC term (`mmduet2`)",
    "repetition": "Repetition term (`mmduet2`)",
    "outside": "Outside term (`mmduet2`)",
    "prefix": "Common-prefix term (`mmduet2`)",
    "format": "Format term (`thinkstream`, `streampro`)",
    "time": "Time term (`thinkstream`)",
    "correctness": "Correctness term (`thinkstream`)",
    "efficiency": "Efficiency term (`thinkstream`, by option)",
    "turn": "Turn-level F1 term (`streampro`)",
    "rubric": "Rubric term (`streampro`)",
}
"""Terms of the rewards there are, in the order of their columns; those of other rewards follow in the alphabet's."""


def schema_of(name: str, terms: Iterable[str]) -> pa.Schema:
    """The schema of table `name` with its columns for the terms of a reward; others have none."""
    order = [*TERMS, *sorted(set(terms) - TERMS.keys())]
    listed = [term for term in order if term in set(terms)]
    fields = []
    for field in SCHEMAS[name]:
        fields += [_of_term(field, term) for term in listed] if TERM in field.name else [field]
    return pa.schema(fields)


def terms_in(name: str, columns: Iterable[str]) -> set[str]:
    """The terms that columns of table `name` are about."""
    fixed = set(SCHEMAS[name].names)
    starts = [field.removesuffix(TERM) for field in fixed if TERM in field]
    return {column.removeprefix(start) for column in columns for start in starts if column.startswith(start)} - {
        field.removeprefix(start) for field in fixed for start in starts if field.startswith(start)
    }


def _of_term(field: pa.Field, term: str) -> pa.Field:
    """The column of a term, its name and meaning spelt out."""
    named = TERMS.get(term, f"Term `{term}`")
    metadata = {key: value.decode().replace(TERM, named) for key, value in (field.metadata or {}).items()}
    return pa.field(field.name.replace(TERM, term), field.type, nullable=field.nullable, metadata=metadata)


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
    return {INT: "bigint", pa.int32(): "integer", FLOAT: "double", BOOL: "boolean", TEXT: "varchar"}[kind]
