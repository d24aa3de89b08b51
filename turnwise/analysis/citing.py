"""The SQL behind every number of the report, and how a number names it.

A sentence cites as Markdown does: `[23.24 %](sql:flips/flip_share?arm=turnwise "0.2324")` is the text shown, the query, its
column, the row, and the value in full. Queries read the catalogue's views and, for what is in no table (scores of cells,
timings), the JSON files themselves.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup, escape
from scipy.stats import t as student

from turnwise.analysis.ablation import CONFIDENCE, METRICS, REFERENCE
from turnwise.analysis.timings import PHASES
from turnwise.analysis.trajectories import Summary
from turnwise.config import Params

_METRICS = ", ".join(METRICS)
_SCORES = f"""metrics as (
  select arm, seed, m.* exclude filename
  from read_json(coalesce(getvariable('root'), '') || 'runs/*/*/eval/metrics.json', filename = true, columns = {{
    {", ".join(f"{name}: 'double'" for name in METRICS)}, benchmarks: 'json', blind: 'json'}}) as m
  join cells on filename = coalesce(getvariable('root'), '') || folder || '/eval/metrics.json'
), score as (
  unpivot (select arm, seed, {_METRICS} from metrics)
  on {_METRICS} into name metric value score
)"""

_LINK = Markup(
    '<a class="q" href="#sql-{0}" data-query="{0}" data-column="{1}" data-row="{2}" data-value="{3}" title="{4}">{5}</a>'
)
_CITATION = re.compile(r"""\[([^][]*)\]\(sql:(\w+)/(\w+)\?([^ ]*) "([^"]*)"\)""")


@dataclass(frozen=True)
class Query:
    """One SQL query, and what it tells in a few words."""

    title: str
    sql: str


def queries(params: Params) -> dict[str, Query]:
    """The queries of the report by name; each gives one row for what a citation's row names."""
    sizes = range(2, max(3, len(params.seeds) + 1))
    quantiles = ", ".join(f"({n}, {student.ppf((1 + CONFIDENCE) / 2, n - 1):.15g})" for n in sizes)
    students = f"student(n, t) as (values {quantiles})"
    paired = f"""difference as (
  select ours.arm, ours.seed, ours.metric, ours.score - theirs.score as score
  from score as ours join score as theirs using (metric, seed)
  where theirs.arm = '{REFERENCE}' and ours.arm <> '{REFERENCE}'
)"""
    return {
        "scores": Query(
            "Mean score of an arm over seeds, with its t-interval (percent)",
            f"with {_SCORES}, {students}, {_spread('score')}",
        ),
        "differences": Query(
            f"Mean difference of an arm to {REFERENCE}, paired by seed, with its t-interval (points)",
            f"with {_SCORES}, {students}, {paired}, {_spread('difference')}",
        ),
        "seeds": Query(
            "Score of every cell (percent)", f"with {_SCORES}\nselect * from score order by metric, arm, seed"
        ),
        "blind": Query(
            "Blind baselines (percent)",
            f"""with {_SCORES}
select distinct key as baseline, {", ".join(f"(value->>'{name}')::double as {name}" for name in METRICS)}
from metrics, json_each(blind)""",
        ),
        "scored": Query(
            "How many items each cell's score is made of",
            f"""with {_SCORES}
select arm, seed, key as benchmark, (value->>'scored')::int as scored, (value->>'expected')::int as expected,
  (value->>'repetition_of')::int as replies_that_could_repeat
from metrics, json_each(benchmarks) order by all""",
        ),
        "flips": Query("Decisions whose advantage changes sign", _flips("arm")),
        "flips_by_seed": Query("The same, seed by seed", _flips("arm, seed")),
        "repeats": Query(
            "Advantage of the replies judged repeated",
            """select arm, count(*) filter (flipped is not null) as replies,
  count(*) filter (flipped is null) as dropped_replies,
  avg((advantage_global < 0)::int) filter (flipped is not null) as negative_global,
  avg((advantage_turn < 0)::int) filter (flipped is not null) as negative_turn
from decisions where repeat group by arm""",
        ),
        "training": Query(
            "Updates and trajectories behind the learning curves",
            """select arm, count(distinct seed) as seeds, max(update) as updates, avg(reward) as reward,
  avg(zero_spread_share) as zero_spread_share, avg(abstained_share) as abstained_share,
  max(advantage_clipped_share) as advantage_clipped_share, max(logprob_gap) as logprob_gap
from updates group by arm""",
        ),
        "warnings": Query(
            "Updates with a warning",
            """select arm, seed, warnings, count(*) as updates, min(update) as first, max(update) as last
from updates where warnings is not null group by all order by all""",
        ),
        "truth": Query(
            "Gradient that each arm expects of the toy policy, against the true one",
            "select * from read_json(coalesce(getvariable('root'), '') || 'reports/truth.json')",
        ),
        "judges": Query(
            "Comparisons of judges",
            "select * from read_json(coalesce(getvariable('root'), '') || 'state/judges/*--*.json', filename = true)",
        ),
        "phases": Query("Seconds of each phase of reinforcement learning", _phases(params)),
        "stages": Query("Seconds and peak memory of each stage", _stages(params)),
    }


def trajectory(one: Summary) -> Query:
    """The decisions of one trajectory."""
    episode = one.episode.replace("'", "''")
    return Query(
        f"Decisions of {one.name}",
        f"""select * from decisions
where arm = '{one.cell.arm}' and seed = {one.cell.seed} and update = {one.update}
  and episode = '{episode}' and trajectory = {one.trajectory} order by turn""",
    )


def _spread(rows: str) -> str:
    """Mean and t-interval of the column `score` of `rows`, by arm and metric."""
    return f"""one as (
  select *, count(*) over (partition by arm, metric) as seeds from {rows}
)
select arm, metric, count(*) as n, avg(score) as mean,
  avg(score) - any_value(t) * stddev_samp(score) / sqrt(count(*)) as low,
  avg(score) + any_value(t) * stddev_samp(score) / sqrt(count(*)) as high
from one left join student on student.n = seeds
group by arm, metric order by metric, arm"""


def _flips(keys: str) -> str:
    return f"""with counted as (select * from decisions where flipped is not null), trajectory as (
  select arm, seed, bool_or(advantage_turn > 0) and bool_or(advantage_turn < 0) as mixed
  from counted group by arm, seed, update, episode, trajectory
), one as (
  select {keys}, count(*) as decisions, avg(flipped::int) as flip_share,
    avg(flipped::int) filter (turn >= 2) as flip_share_after_turn_1,
    count(*) filter (advantage_global = 0) as zero_global, count(*) filter (advantage_turn = 0) as zero_turn
  from counted group by {keys}
), dropped as (
  select {keys}, count(*) filter (flipped is null) as dropped_decisions from decisions group by {keys}
), mixed as (select {keys}, avg(mixed::int) as mixed_share from trajectory group by {keys})
select * from one join mixed using ({keys}) join dropped using ({keys}) order by {keys}"""


def _lines(columns: str, params: Params) -> str:
    """Lines of the timings of this experiment's cells, in the order in which they were booked."""
    seeds = ", ".join(f"'{seed}'" for seed in params.seeds)
    return f"""line as (
  select split_part(replace(filename, coalesce(getvariable('root'), ''), ''), '/', 2) as stage,
    parse_filename(filename, true) as cell, row_number() over () as place, * exclude filename
  from read_json(coalesce(getvariable('root'), '') || 'timings/*/*.jsonl', filename = true,
    format = 'newline_delimited', columns = {{{columns}}})
), ours as (
  select * from line
  where cell in ('data', {seeds}) or cell in (select arm || '-' || seed from cells)
)"""


def _phases(params: Params) -> str:
    columns = ", ".join(f"{phase}: 'double'" for phase in PHASES)
    latest = ",\n    ".join(f"arg_max_null({phase}, place) as {phase}" for phase in PHASES)
    return f"""with {_lines(f"update: 'int', {columns}", params)}, latest as (
  select {latest}
  from ours where stage = 'rl' and update <= {params.rl.updates} group by cell, update
), phase as (select * from (unpivot latest on {", ".join(PHASES)} into name phase value spent))
select phase, sum(spent) as seconds, sum(spent) / sum(sum(spent)) over () as share,
  sum(sum(spent)) over () as total,
  sum(sum(spent)) filter (phase in ('sweep', 'credit')) over () / sum(sum(spent)) over () as share_of_sweep_and_credit
from phase group by phase order by seconds desc"""


def _stages(params: Params) -> str:
    return f"""with {_lines("update: 'int', total: 'double', seconds: 'double', peak_mb: 'double'", params)}, learned as (
  select cell, arg_max_null(total, place) as spent
  from ours where stage = 'rl' and update <= {params.rl.updates} group by cell, update
), whole as (
  select stage, cell, arg_max(seconds, place) as spent, arg_max(peak_mb, place) as peak_mb
  from ours where seconds is not null group by stage, cell
), cell as (
  select stage, cell, peak_mb,
    coalesce((select sum(spent) from learned where stage = 'rl' and learned.cell = whole.cell), spent) as spent
  from whole
)
select stage, count(*) as cells, sum(spent) as seconds, sum(spent) / count(*) as seconds_a_cell, max(peak_mb) as peak_mb
from cell group by stage order by stage"""


def cite(text: str, query: str, column: str, value: float | None, **row: object) -> str:
    """`text` as a citation of the value in `column` of the row of `query` that `row` names; of nothing, the bare text."""
    return text if value is None else f'[{text}](sql:{query}/{column}?{urlencode(row)} "{value!r}")'


def plain(sentence: str) -> str:
    """The sentence without what it cites."""
    return _CITATION.sub(r"\1", sentence)


def html(sentence: str) -> Markup:
    """A sentence as HTML: escaped, `words in backticks` as code, citations as links to their query."""
    parts = _CITATION.split(sentence)
    texts = [_code(text) for text in parts[::6]]
    links = [_link(*parts[start : start + 5]) for start in range(1, len(parts), 6)]
    return Markup("").join(piece for pair in zip(texts, [*links, Markup("")], strict=True) for piece in pair)


def _code(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _link(text: str, query: str, column: str, row: str, value: str) -> Markup:
    where = ", ".join(f"{name} = {value}" for name, value in parse_qsl(row))
    return _LINK.format(query, column, row, value, f"{column} where {where}" if where else column, text)
