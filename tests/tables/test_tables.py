"""Tables keep what they are given: exact round trips, the same bytes, clear refusals."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import columns_of_two

from turnwise import tables
from turnwise.errors import UserError
from turnwise.records import Action, Evidence, Trajectory

KINDS = ("silence", "reply", "malformed")


@st.composite
def actions(draw):
    tokens = draw(st.lists(st.integers(0, 152_000), min_size=1, max_size=4))
    logprobs = draw(st.lists(st.floats(-50, 0), min_size=len(tokens), max_size=len(tokens)))
    return Action(
        tokens=tuple(tokens),
        logprobs=tuple(logprobs),
        text=draw(st.text(max_size=5)),
        kind=draw(st.sampled_from(KINDS)),
        capped=draw(st.booleans()),
        thought_tokens=draw(st.integers(0, 9)),
    )


@st.composite
def trajectories(draw):
    turns = draw(st.integers(1, 4))
    return [
        Trajectory("clip'é-1", i, tuple(draw(actions()) for _ in range(turns))) for i in range(draw(st.integers(0, 3)))
    ]


@st.composite
def evidence(draw):
    turns, windows = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    column = lambda values: np.array(draw(st.lists(values, min_size=turns, max_size=turns)))  # noqa: E731
    levels = draw(
        st.lists(st.sampled_from([math.nan, 0.0, 1.0, 4.0]), min_size=turns * windows, max_size=turns * windows)
    )
    asked = draw(st.booleans())
    return Evidence(
        "clip-1",
        draw(st.integers(0, 7)),
        tuple(draw(st.sampled_from(KINDS)) for _ in range(turns)),
        np.array(levels).reshape(turns, windows),
        column(st.sampled_from([math.nan, 0.0, 1.0])),
        column(st.booleans()),
        column(st.integers(0, 500)),
        column(st.booleans()),
        np.array(levels[::-1]).reshape(turns, windows) if asked else None,
        column(st.sampled_from([0.0, 1.0, 3.0])) if asked else None,
        column(st.integers(0, 40)) if asked else None,
    )


@settings(max_examples=30, deadline=None)
@given(trajectories())
def test_trajectories_come_back_equal(tmp_path_factory, given_trajectories):
    path = tmp_path_factory.mktemp("t") / "trajectories.parquet"
    tables.write_table("trajectories", tables.trajectory_columns(3, given_trajectories), path)
    assert tables.trajectories_from(tables.read_table("trajectories", path)) == [(3, t) for t in given_trajectories]


@settings(max_examples=30, deadline=None)
@given(st.lists(evidence(), max_size=3, unique_by=lambda one: one.index))
def test_evidence_comes_back_equal(tmp_path_factory, given_evidence):
    path = tmp_path_factory.mktemp("e") / "evidence.parquet"
    tables.write_table("evidence", tables.evidence_columns(2, given_evidence), path)
    back = tables.evidence_from(tables.read_table("evidence", path))
    assert [update for update, _ in back] == [2] * len(given_evidence)
    for (_, one), wanted in zip(back, sorted(given_evidence, key=lambda e: e.index), strict=True):
        assert (one.episode, one.index, one.kinds) == (wanted.episode, wanted.index, wanted.kinds)
        for name in (
            "levels",
            "repeats",
            "outside",
            "prefix_chars",
            "abstained",
            "answers",
            "rubric",
            "thought_tokens",
        ):
            given_value, value = getattr(wanted, name), getattr(one, name)
            assert (value is None) == (given_value is None), name
            if value is not None:
                np.testing.assert_array_equal(value, given_value)
                assert value.dtype == given_value.dtype


def test_decisions_by_hand(tmp_path):
    path = tmp_path / "decisions.parquet"
    tables.write_table("decisions", columns_of_two(), path)
    rows = tables.read_table("decisions", path).to_pylist()
    keyed = {(row["trajectory"], row["turn"]): row for row in rows}
    assert list(keyed) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    pick = lambda *names: [tuple(row[name] for name in names) for row in rows]  # noqa: E731
    assert pick("time", "kind", "tokens", "repeat") == [
        (2.0, "silence", 2, None),
        (4.0, "reply", 1, False),
        (2.0, "reply", 1, False),
        (4.0, "reply", 1, True),
    ]
    assert pick("prefix_score", "earned", "remaining", "reward", "silent_reward") == [
        (1.0, 0.0, 3.0, 4.0, 1.0),
        (4.0, 0.0, 3.0, 4.0, 1.0),
        (3.0, 0.0, 1.0, 2.0, 1.0),
        (2.0, 2.0, -1.0, 2.0, 1.0),
    ]
    assert pick("term_repetition", "advantage_used", "flipped") == [
        (-1.0, 1.0, False),
        (-4.0, 2.0, False),  # a zero never flips
        (-3.0, 3.0, False),
        (-2.0, 4.0, True),
    ]


def test_columns_of_terms_follow_the_reward(tmp_path):
    columns = columns_of_two()
    for name in ("repetition", "outside", "prefix"):
        del columns[f"term_{name}"], columns[f"silent_{name}"]
    columns |= {
        f"{where}_{name}": columns[f"{where}_pauc"] for where in ("term", "silent") for name in ("zest", "turn")
    }
    tables.write_table("decisions", columns, tmp_path / "d.parquet")
    table = tables.read_table("decisions", tmp_path / "d.parquet")
    assert [name for name in table.column_names if name.startswith("term_")] == ["term_pauc", "term_turn", "term_zest"]
    assert table.schema.field("term_turn").metadata[b"meaning"].startswith(b"Turn-level F1 term")
    del columns["silent_turn"]
    with pytest.raises(ValueError, match="column silent_turn is missing"):
        tables.write_table("decisions", columns, tmp_path / "d.parquet")


def test_dropped_groups_and_sft_have_nulls(tmp_path):
    tables.write_table("decisions", columns_of_two(live=False, advantage_used=None), tmp_path / "d.parquet")
    table = tables.read_table("decisions", tmp_path / "d.parquet")
    assert table["flipped"].null_count == table["advantage_used"].null_count == 4
    assert table["live"].to_pylist() == [False] * 4


def test_the_same_rows_in_any_order_give_the_same_bytes(tmp_path):
    columns = columns_of_two()
    backwards = {name: values[::-1] for name, values in reversed(columns.items())}
    for name, given_columns in (("a", columns), ("b", backwards)):
        tables.write_table("decisions", given_columns, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pq.ParquetFile(tmp_path / "a").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"live": None}, "live"),
        ({"colour": [1] * 4}, "colour is not of this table"),
        ({"reward": [math.nan] * 4}, "column reward must have a value"),
        ({"tokens": [1.5] * 4}, "column tokens must be int64"),
        ({"text": ["short"]}, "column text is not 4 rows long"),
        ({"turn": [1] * 4}, "one stands twice"),
    ],
)
def test_wrong_columns_are_refused(tmp_path, change, told):
    columns = {name: values for name, values in {**columns_of_two(), **change}.items() if values is not None}
    with pytest.raises(ValueError, match=f"table decisions: .*{told}"):
        tables.write_table("decisions", columns, tmp_path / "d.parquet")
    assert list(tmp_path.iterdir()) == []


def test_unreadable_files_are_named(tmp_path):
    path = tmp_path / "decisions.parquet"
    with pytest.raises(UserError, match=r"decisions\.parquet: no such file"):
        tables.read_table("decisions", path)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(UserError, match="not a readable parquet file"):
        tables.read_table("decisions", path)
    tables.write_table("evidence", tables.evidence_columns(1, []), path)
    with pytest.raises(UserError, match=r"decisions\.parquet: column task of table decisions"):
        tables.read_table("decisions", path)


def test_concat_joins_and_keeps_order():
    assert tables.concat([{"a": [1], "b": [2]}, {"a": [3], "b": [4]}]) == {"a": [1, 3], "b": [2, 4]}


def test_every_column_has_unit_and_meaning():
    for schema in tables.SCHEMAS.values():
        for field in schema:
            assert field.metadata[b"unit"]
            assert len(field.metadata[b"meaning"]) > 8, field.name
            assert field.nullable <= (
                "null" in field.metadata[b"meaning"].decode() or schema is tables.SCHEMAS["updates"]
            )
