"""The views that answer the paper's questions: their columns, documented as those of the tables are, and their SQL.

Counts and shares are those of `sign_flips.json` and `redundancy.json`, under the same names, cell by cell. Decisions of
groups dropped for zero spread, where `flipped` is null, are counted apart and in no share.
"""

from dataclasses import dataclass

import pyarrow as pa

from turnwise.tables.schema import BOOL, FLOAT, GROUP_KEY, INT, TEXT, TRAJECTORY, TURN, column


@dataclass(frozen=True)
class View:
    """What a row is, its columns, and the query behind it."""

    row: str
    schema: pa.Schema
    sql: str


def _count(name: str, meaning: str, unit: str = "decisions") -> pa.Field:
    return column(name, INT, unit, meaning)


def _share(name: str, meaning: str) -> pa.Field:
    return column(name, FLOAT, "share 0..1", meaning, null=True)


ARM = column("arm", TEXT, "-", "Arm; `sft` is the warm-up.")
CELL = [ARM, column("seed", pa.int32(), "-", "Seed.")]

MIXED_TRAJECTORIES = View(
    "a trajectory of a group that was learned from",
    pa.schema(
        [
            *CELL,
            *GROUP_KEY,
            TRAJECTORY,
            _count("turns", "Decisions."),
            _count("positive", "Those with A_turn > 0."),
            _count("negative", "Those with A_turn < 0."),
            column("mixed", BOOL, "-", "It has both: good and bad decisions in one trajectory."),
            column("advantage_global", FLOAT, "advantage", "GRPO's one number for all of them."),
            column("reward", FLOAT, "reward", "R."),
        ]
    ),
    """
select arm, seed, update, episode, trajectory,
  count(*) as turns,
  count(*) filter (advantage_turn > 0) as positive,
  count(*) filter (advantage_turn < 0) as negative,
  bool_or(advantage_turn > 0) and bool_or(advantage_turn < 0) as mixed,
  any_value(advantage_global) as advantage_global,
  any_value(reward) as reward
from decisions
where flipped is not null
group by all
order by all""",
)

SIGN_FLIPS = View(
    "a cell",
    pa.schema(
        [
            *CELL,
            _share("flip_share", "Decisions that are flipped, over all turns, as the paper counts; null: no decision."),
            _share("flip_share_after_turn_1", "The same over turns >= 2: at turn 1 both advantages agree; null: none."),
            _share("mixed_share", "Trajectories that are mixed; null: no trajectory."),
            _count("decisions", "Those of groups that were learned from."),
            _count("flipped", "Those that are flipped."),
            _count("later_decisions", "Those at turns >= 2."),
            _count("trajectories", "Those of groups that were learned from.", "trajectories"),
            _count("mixed", "Those that are mixed.", "trajectories"),
            _count("zero_global", "Those with A_global = 0."),
            _count("zero_turn", "Those with A_turn = 0."),
            _count("dropped_decisions", "Those of groups dropped for zero spread."),
        ]
    ),
    """
with trajectory as (
  select arm, seed, avg(mixed::int) as mixed_share, count(*) as trajectories, count(*) filter (mixed) as mixed
  from mixed_trajectories
  group by arm, seed
), decision as (
  select arm, seed,
    avg(flipped::int) as flip_share,
    avg(flipped::int) filter (turn >= 2) as flip_share_after_turn_1,
    count(flipped) as decisions,
    count(*) filter (flipped) as flipped,
    count(flipped) filter (turn >= 2) as later_decisions,
    count(flipped) filter (advantage_global = 0) as zero_global,
    count(flipped) filter (advantage_turn = 0) as zero_turn,
    count(*) - count(flipped) as dropped_decisions
  from decisions
  group by arm, seed
)
select arm, seed, flip_share, flip_share_after_turn_1, mixed_share, decisions, flipped, later_decisions,
  coalesce(trajectories, 0) as trajectories, coalesce(mixed, 0) as mixed, zero_global, zero_turn, dropped_decisions
from decision left join trajectory using (arm, seed)
order by arm, seed""",
)

REDUNDANCY = View(
    "a cell",
    pa.schema(
        [
            *CELL,
            _share("negative_global", "Repeated replies with A_global < 0; null: no repeated reply."),
            _share("negative_turn", "Repeated replies with A_turn < 0; null: no repeated reply."),
            _count("replies", "Judged to only repeat, of groups that were learned from.", "replies"),
            _count("dropped_replies", "Judged to only repeat, of groups dropped for zero spread.", "replies"),
            _count("negative_global_count", "Those with A_global < 0.", "replies"),
            _count("zero_global_count", "Those with A_global = 0.", "replies"),
            _count("negative_turn_count", "Those with A_turn < 0.", "replies"),
            _count("zero_turn_count", "Those with A_turn = 0.", "replies"),
        ]
    ),
    """
select arm, seed,
  avg((advantage_global < 0)::int) filter (repeat and flipped is not null) as negative_global,
  avg((advantage_turn < 0)::int) filter (repeat and flipped is not null) as negative_turn,
  count(flipped) filter (repeat) as replies,
  count(*) filter (repeat and flipped is null) as dropped_replies,
  count(flipped) filter (repeat and advantage_global < 0) as negative_global_count,
  count(flipped) filter (repeat and advantage_global = 0) as zero_global_count,
  count(flipped) filter (repeat and advantage_turn < 0) as negative_turn_count,
  count(flipped) filter (repeat and advantage_turn = 0) as zero_turn_count
from decisions
group by arm, seed
order by arm, seed""",
)

CREDIT_BY_TURN = View(
    "a turn of a cell, over all its decisions in groups that were learned from",
    pa.schema(
        [
            *CELL,
            TURN,
            _count("decisions", "How many; episodes differ in length."),
            column("advantage_global", FLOAT, "advantage", "Mean A_global."),
            column("advantage_turn", FLOAT, "advantage", "Mean A_turn."),
            column("correction", FLOAT, "advantage", "Mean of abs(A_turn - A_global)."),
            column("earned", FLOAT, "reward", "Mean C: earned before."),
            column("remaining", FLOAT, "reward", "Mean F: earned from here on."),
            column("flip_share", FLOAT, "share 0..1", "Decisions that are flipped."),
            column("reply_rate", FLOAT, "share 0..1", "Decisions that are not silent."),
        ]
    ),
    """
select arm, seed, turn,
  count(*) as decisions,
  avg(advantage_global) as advantage_global,
  avg(advantage_turn) as advantage_turn,
  avg(abs(advantage_turn - advantage_global)) as correction,
  avg(earned) as earned,
  avg(remaining) as remaining,
  avg(flipped::int) as flip_share,
  avg((kind <> 'silence')::int) as reply_rate
from decisions
where flipped is not null
group by all
order by all""",
)

VIEWS = {
    "mixed_trajectories": MIXED_TRAJECTORIES,
    "sign_flips": SIGN_FLIPS,
    "redundancy": REDUNDANCY,
    "credit_by_turn": CREDIT_BY_TURN,
}
"""Views over the tables, in the order in which they need each other."""

ABLATION = pa.schema(
    [
        ARM,
        column(
            "metric", TEXT, "-", "`pauc`, `repetition`, `timing_f1` or `streamingbench`, as its benchmark aggregates."
        ),
        column("n", INT, "seeds", "Those with a score."),
        *(
            column(name, FLOAT, unit, meaning, null=True)
            for name, unit, meaning in (
                ("mean", "percent", "Mean over seeds; null: no seed has one."),
                ("low", "percent", "Its 95 % t-interval begins here; null: of one seed there is none."),
                ("high", "percent", "And ends here; null likewise."),
                (
                    "difference",
                    "points",
                    "Mean difference to `grpo`, paired by seed; null: of `grpo` itself, or no pair.",
                ),
                ("difference_low", "points", "Its 95 % t-interval begins here; null likewise."),
                ("difference_high", "points", "And ends here; null likewise."),
                ("published", "percent", "The paper's value for this arm, of another task; null: it has none."),
            )
        ),
    ]
)
"""Columns of the view `ablation` over `reports/ablation.csv`; a column `seed_<seed>`, percent, follows for each seed."""
