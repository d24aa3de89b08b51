"""The `turnwise` command as a person uses it: real profiles, real tables, real processes for errors and speed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import turnwise
from turnwise import tables
from turnwise.cli import app
from turnwise.cli.profiles import params_yaml
from turnwise.config import compose, read_params, read_yaml
from turnwise.judging import VERDICTS, VerdictCache

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A repository's root with the real profiles, one overlay of ours and an empty catalogue."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    (tmp_path / "profiles" / "tiny.yaml").write_text("# One update.\nrl: {updates: 1, warmup_updates: 0}\nseeds: [5]\n")
    tables.build_catalogue(tmp_path / "turnwise.duckdb", tmp_path, [("grpo", 0), ("sft", 0)], ("pauc",))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(folder, *words, status=2):
    command = [sys.executable, "-m", "turnwise.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    return done.stderr


def test_profile_use_writes_what_compose_says(folder):
    assert "embedded + tiny" in run("profile", "use", "embedded", "tiny")
    assert read_yaml(folder / "params.yaml") == compose(["embedded", "tiny"])
    assert (read_params().rl.updates, read_params().seeds, read_params().profiles) == (1, (5,), ("embedded", "tiny"))
    text = (folder / "params.yaml").read_text()
    assert text.startswith("# Written by `turnwise profile use embedded tiny`")
    assert "  turnwise: {credit: turnwise, alpha: 1.0, aggregation: turn-mean}\n" in text
    assert "  updates: 1\n" in text


def test_profile_show_tells_edits_and_what_use_would_write(folder):
    run("profile", "use", "tiny")
    assert run("profile", "show") == "params.yaml: tiny\n"
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(
        text.replace("seeds: [5]", "seeds: [5, 6]").replace("  lr: 0.0003", "  lr: 0.1")
    )
    assert run("profile", "show") == "params.yaml: tiny\n  seeds: [5] -> [5, 6]\n  rl.lr: 0.0003 -> 0.1\n"
    assert run("profile", "show", "tiny") == params_yaml(compose(["tiny"])) == text


def test_profile_list_says_what_they_are(folder):
    assert [line.split()[0] for line in run("profile", "list").splitlines()] == sorted(
        path.stem for path in (folder / "profiles").glob("*.yaml")
    )
    assert "tiny              One update.\n" in run("profile", "list")


def test_sql_prints_tables_csv_and_json():
    query = "select arm, seed, 0.25 as share, null as nothing, '[b]x' as markup from cells order by arm"
    assert (
        run("sql", query, "--format", "csv") == "arm,seed,share,nothing,markup\ngrpo,0,0.25,,[b]x\nsft,0,0.25,,[b]x\n"
    )
    row = {"arm": "grpo", "seed": 0, "share": 0.25, "nothing": None, "markup": "[b]x"}
    assert json.loads(run("sql", query, "--format", "json")) == [row, {**row, "arm": "sft"}]
    shown = run("sql", query)
    assert [line.split() for line in shown.splitlines() if "grpo" in line] == [["grpo", "0", "0.25", "null", "[b]x"]]
    assert run("sql", "select arm, avg(flipped::int) from decisions group by arm", "--format", "json") == "[]\n"


def test_sql_shows_values_that_python_json_or_a_terminal_have_not(folder):
    query = "select 'nan'::double as a, ['inf'::double, 1.5] as b, {'c': '-inf'::float} as d"
    assert json.loads(run("sql", query, "--format", "json")) == [{"a": None, "b": [None, 1.5], "d": {"c": None}}]
    assert "nan" in run("sql", query, "--format", "csv")
    assert "beyond the years 1 to 9999" in fail(folder, "sql", "select 'infinity'::date")
    assert "\x1b" not in run("sql", "select chr(27) || '[2Jgone' as text")
    assert "\N{REPLACEMENT CHARACTER}[2Jgone" in run("sql", "select chr(27) || '[2Jgone' as text")


def test_sql_reads_a_query_from_a_file(folder):
    (folder / "question.sql").write_text("-- how many?\nselect count(*) as cells from cells;\n", encoding="utf-8")
    assert run("sql", "--file", "question.sql", "--format", "csv") == "cells\n2\n"
    for words in (["sql"], ["sql", "select 1", "--file", "question.sql"]):
        assert fail(folder, *words).startswith("error: sql: give a query or, with --file")
    assert "does not exist" in fail(folder, "sql", "--file", "nothing.sql")


def test_wide_rows_are_whole_when_piped():
    text = "x" * 500
    assert text in run("sql", f"select '{text}' as a, 1 as b")


def test_faults_are_one_message_and_status_2(folder):
    before = sorted(folder.rglob("*"))
    assert fail(folder, "profile", "use", "nope").startswith(
        "error: profiles: there is no profile 'nope'; the profiles are"
    )
    assert fail(folder, "sql", "select nothing from decisions").startswith("error: SQL: ")
    assert fail(folder, "track").startswith("error: params.yaml: no such file; `turnwise profile use embedded`")
    assert fail(folder, "report").startswith("error: params.yaml: no such file")
    assert fail(folder / "profiles", "profile", "list").startswith("error: profiles: no profile here")
    (folder / "turnwise.duckdb").unlink()
    assert fail(folder, "sql", "select 1").startswith("error: turnwise.duckdb: no such catalogue")
    assert sorted(folder.rglob("*")) == [path for path in before if path.name != "turnwise.duckdb"]


def test_what_the_machine_lacks_is_one_message_and_status_1(folder):
    assert VerdictCache(VERDICTS).path.is_file()
    said = fail(folder, "judge", "cache", "export", "profiles/tiny.yaml/verdicts.jsonl", status=1)
    assert said == "error: profiles/tiny.yaml: File exists\n"


def test_version_and_help_load_nothing_heavy():
    assert run("--version") == f"{turnwise.__version__}\n"
    code = (
        "import sys, turnwise, turnwise.cli, turnwise.tracking\n"
        "heavy = {'torch', 'transformers', 'mlflow', 'duckdb', 'pyarrow', 'matplotlib'}\n"
        "sys.exit(f'{heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for words in (["profile", "use"], ["profile", "show"], ["sql"], ["track"], ["report"]):
        assert "Example" in run(*words, "--help")
