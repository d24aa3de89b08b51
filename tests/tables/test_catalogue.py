"""The catalogue and docs/tables.md: what the queries of the page give on tables worked out by hand."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from small_tables import CELLS, TERMS, write_experiment

from turnwise import tables
from turnwise.errors import UserError
from turnwise.tables.describe import refreshed
from turnwise.tables.views import ABLATION, VIEWS

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
EXPECTED = {
    "How many decisions change sign?": [
        ("grpo", 0.25, 0.5, 4, 0),
        ("sft", 0.25, 0.5, 4, 0),
        ("turnwise", 0.25, 0.5, 4, 4),
    ],
    "How many trajectories hold good and bad decisions?": [(arm, 0.5, 2) for arm in ("grpo", "sft", "turnwise")],
    "Are redundant replies told off?": [(arm, 1.0, 0.0, 1) for arm in ("grpo", "sft", "turnwise")],
    "Which groups taught nothing?": [("grpo", 1, 1, 0), ("sft", 1, 1, 0), ("turnwise", 1, 1, 0), ("turnwise", 2, 1, 1)],
    "Where does the clip act?": [(arm, 1, 0.0, 1.0, 1.0) for arm in ("grpo", "sft", "turnwise")],
    "What made the reward rise?": [
        ("grpo", 1, 1.0, 0.2, None, None, None),
        ("turnwise", 1, 1.0, 0.2, None, None, None),
        ("turnwise", 2, 3.0, None, None, None, None),
    ],
    "When are windows answered?": [(arm, "steps", 1, 4.0, 0.5) for arm in ("grpo", "sft", "turnwise")],
    "Is it talk or silence that is reinforced?": [
        (arm, kind, *rest)
        for arm in ("grpo", "turnwise")
        for kind, *rest in (("reply", 3.0, 1.0, 3), ("silence", 1.0, 2.0, 1))
    ],
    "Did the optimizer stay within its clips?": [
        ("grpo", 0, 0.1, 0.5, None, None, None),
        ("turnwise", 0, 0.3, 0.3, None, None, 0.7),
    ],
    "How do the arms compare on the benchmarks?": [
        ("pauc", "grpo", 55.5, None, None, None, None, None, 1),
        ("pauc", "turnwise", 60.0, None, None, 4.5, None, None, 1),
        ("repetition", "sft", None, None, None, None, None, None, 0),
    ],
    "Where do the arms differ, subset by subset?": [
        ("ovo_timing", "a", "grpo", 50.0, 1, 2),
        ("ovo_timing", "a", "sft", 0.0, 2, 2),
        ("ovo_timing", "a", "turnwise", 100.0, 2, 2),
        ("ovo_timing", "b", "grpo", 100.0, 1, 1),
        ("ovo_timing", "b", "sft", 0.0, 1, 1),
        ("ovo_timing", "b", "turnwise", 50.0, 1, 1),
    ],
    "Which items did an arm win or lose against GRPO?": [
        ("sft", "ovo_timing", 0, 0, 2),
        ("turnwise", "ovo_timing", 1, 0, 1),
    ],
    "Which decisions do the two rules judge most differently?": [
        (arm, 0, 1, "e1", 1, 2, "a dot", -0.5, 0.3) for arm in ("grpo", "sft", "turnwise")
    ],
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    root = tmp_path_factory.mktemp("it's, an experiment")
    write_experiment(root)
    return root


def rows(root, sql):
    return [tuple(row.values()) for row in tables.query(root / "turnwise.duckdb", sql).to_pylist()]


def queries_of_page():
    return dict(re.findall(r"^### ([^\n]*\?)\n.*?```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def test_the_page_shows_the_schemas():
    page = PAGE.read_text(encoding="utf-8")
    assert refreshed(page) == page, "run `python -m turnwise.tables.describe`"


def test_every_query_of_the_page_is_expected():
    assert list(queries_of_page()) == list(EXPECTED)


@pytest.mark.parametrize("question", EXPECTED)
def test_queries_of_the_page(experiment, question):
    expected = [tuple(pytest.approx(v) if isinstance(v, float) else v for v in row) for row in EXPECTED[question]]
    assert rows(experiment, queries_of_page()[question]) == expected


def test_views_have_arm_and_seed_first_and_only_the_cells_given(experiment):
    for name in tables.SCHEMAS:
        assert tables.query(experiment / "turnwise.duckdb", f"from {name}").column_names == [
            "arm",
            "seed",
            *tables.schema_of(name, TERMS).names,
        ]
    assert rows(experiment, "from cells") == [(arm, seed, f"runs/{arm}/{seed}") for arm, seed in CELLS]
    assert rows(experiment, "select count(*) from trajectories") == [(0,)]
    tables.build_catalogue(experiment / "one.duckdb", experiment, [("grpo", 0)], TERMS)
    assert tables.query(experiment / "one.duckdb", "select distinct arm from decisions").to_pylist() == [
        {"arm": "grpo"}
    ]


def test_views_give_what_is_documented(experiment):
    seeds = pa.field("seed_0", pa.float64())
    documented = {name: view.schema for name, view in VIEWS.items()} | {"ablation": ABLATION.append(seeds)}
    for name, schema in documented.items():
        found = tables.query(experiment / "turnwise.duckdb", f"from {name}")
        assert (found.schema.names, found.schema.types) == (schema.names, schema.types), name
        nulls = {column for column in found.column_names if found[column].null_count}
        assert nulls <= {field.name for field in schema if field.nullable}


def test_views_by_hand(experiment):
    """`turnwise` has a dropped group beside the one that all cells have (see LIVE)."""
    shown = rows(experiment, "select * exclude (arm, seed) from sign_flips where arm = 'turnwise'")
    assert shown == [(0.25, 0.5, 0.5, 4, 1, 2, 2, 1, 0, 1, 4)]
    assert rows(experiment, "select * exclude seed from redundancy") == [
        ("grpo", 1.0, 0.0, 1, 0, 1, 0, 0, 0),
        ("sft", 1.0, 0.0, 1, 0, 1, 0, 0, 0),
        ("turnwise", 1.0, 0.0, 1, 1, 1, 0, 0, 0),
    ]
    assert rows(experiment, "select * exclude (arm, seed) from mixed_trajectories where arm = 'turnwise'") == [
        (1, "e1", 0, 2, 1, 0, False, 0.5, 4.0),
        (1, "e1", 1, 2, 1, 1, True, -0.5, 2.0),
    ]
    assert rows(experiment, "select * exclude (arm, seed) from credit_by_turn where arm = 'grpo'") == [
        (1, 2, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.5),
        (2, 2, 0.0, pytest.approx(0.15), pytest.approx(0.65), 1.0, 1.0, 0.5, 1.0),
    ]


def test_an_empty_view_has_the_types_of_a_full_one(experiment, tmp_path):
    tables.build_catalogue(tmp_path / "empty.duckdb", tmp_path, CELLS, TERMS)
    for name in ("decisions", "evidence", "updates", "samples", *VIEWS):
        empty, full = (
            tables.query(path, f"from {name}") for path in (tmp_path / "empty.duckdb", experiment / "turnwise.duckdb")
        )
        assert empty.num_rows == 0
        assert empty.schema.types == full.schema.types


def test_another_experiment_in_the_working_directory_is_not_read(experiment, tmp_path, monkeypatch):
    write_experiment(tmp_path)
    (tmp_path / "runs/grpo/0/decisions.parquet").unlink()
    monkeypatch.chdir(tmp_path)
    assert rows(experiment, "select count(*) from decisions where arm = 'grpo'") == [(4,)]


def test_an_experiment_can_be_moved_and_read_from_its_folder(tmp_path, monkeypatch):
    import duckdb

    write_experiment(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    assert rows(tmp_path / "after", "select count(*) from updates") == [(3,)]
    monkeypatch.chdir(tmp_path / "after")
    with duckdb.connect("turnwise.duckdb", read_only=True) as plain:
        assert plain.sql("select count(*) from updates").fetchall() == [(3,)]


def test_faults_are_told_in_words(experiment, tmp_path):
    with pytest.raises(UserError, match="no such catalogue"):
        tables.query(tmp_path / "turnwise.duckdb", "select 1")
    with pytest.raises(UserError, match=r"SQL: .*decision"):
        tables.query(experiment / "turnwise.duckdb", "select * from decision")
    with pytest.raises(UserError, match=r"SQL: .*that reads"):
        tables.query(experiment / "turnwise.duckdb", "drop view decisions")
    (tmp_path / "turnwise.duckdb").write_bytes((experiment / "turnwise.duckdb").read_bytes())
    with pytest.raises(UserError, match=r"decisions\.parquet.*dvc repro"):
        tables.query(tmp_path / "turnwise.duckdb", "select * from decisions")


def test_a_catalogue_open_for_writing_is_refused(experiment):
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(experiment / "turnwise.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(UserError, match="another program has the catalogue open"):
            tables.query(experiment / "turnwise.duckdb", "select 1")
        writer.stdin.close()


@pytest.mark.parametrize(
    "sql",
    ["copy (select 1) to 'evil.csv'", "select 1; select 2", "", "create view v as select 1", "export database 'x'"],
)
def test_only_one_statement_that_reads_is_run(experiment, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^SQL: "):
        tables.query(experiment / "turnwise.duckdb", sql)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql", ["select 1 as x", "describe decisions", "summarize updates", "from cells", "explain select 1"]
)
def test_what_reads_is_run(experiment, sql):
    assert tables.query(experiment / "turnwise.duckdb", sql).num_rows > 0


@pytest.mark.parametrize("explain", ["explain analyze", "EXPLAIN /* */ ANALYSE", "explain (analyze, format json)"])
def test_an_explain_that_would_write_is_refused(experiment, tmp_path, explain):
    with pytest.raises(UserError):
        tables.query(experiment / "turnwise.duckdb", f"{explain} copy (select 1) to '{tmp_path}/written.csv'")
    assert not (tmp_path / "written.csv").exists()


def test_columns_of_one_name_are_refused(experiment):
    with pytest.raises(UserError, match="more than one column is named 'a'"):
        tables.query(experiment / "turnwise.duckdb", "select 1 as a, 2 as a")
