"""The figures and the page: same bytes, nothing from outside, nothing the model said is markup."""

import json
import re
import shutil
from dataclasses import astuple
from html.parser import HTMLParser

import pytest
from analysis_experiment import HOSTILE, params_with, write_experiment
from markupsafe import escape

from turnwise.analysis import analyze, report
from turnwise.analysis.answer import agreement_sentence, credit_sentence, effect_sentence
from turnwise.analysis.citing import plain, queries
from turnwise.analysis.pages import in_script
from turnwise.analysis.published import REDUNDANCY, SIGN_FLIPS
from turnwise.analysis.timings import Stage, read_timings
from turnwise.errors import UserError
from turnwise.files import write_json, write_jsonl
from turnwise.tables import CATALOGUE, build_catalogue, query

CHARTS = ("advantages", "curves", "differences", "redundancy", "seeds", "truth")
AGREEMENT = {"both": 8, "agreement": 0.75, "kappa": None, "abstained": [0, 1]}
COMPARISON = {
    "cells": ["sft-0"], "judges": ["rule-5", "strict-5"], "levels": 5, "level": AGREEMENT, "repeat": AGREEMENT,
    "reward": {"trajectories": 8, "means": [1.0, 0.9], "mean_change": -0.1, "mean_absolute_change": 0.2, "correlation": None},
    "ranks": {"groups": 2, "pairs": 12, "kept": 0.5, "reversed": 0.25, "tied_under_one": 0.25, "best_kept": 1.0},
    "signs": {"global_changed": 0.1, "turn_changed": 0.2, "flip_shares": [0.2, None], "decisions": 9},
}  # fmt: skip


class Loads(HTMLParser):
    """Collects what a page would fetch, its ids, and the kinds of its scripts."""

    def __init__(self, page: str):
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids += [named["id"]] if "id" in named else []
        self.scripts += [named.get("type")] * (tag == "script")
        assert not any(name.startswith("on") for name in named)
        if tag != "a":
            self.fetched += [named[name] for name in ("src", "href", "xlink:href", "data", "srcset") if name in named]


def test_analyze_writes_the_same_bytes_again(reports, experiment, params, tmp_path):
    analyze(experiment, params, tmp_path)
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert {path.name for path in written} == {
        "ablation.csv", "ablation.json", "curves.csv", "sign_flips.json", "redundancy.json", "truth.json",
        *(f"{name}.{form}" for name in CHARTS for form in ("svg", "vl.json")),
    }  # fmt: skip
    for path in written:
        assert (tmp_path / path).read_bytes() == (reports / path).read_bytes(), path


def test_curves_have_a_line_an_update_and_empty_fields_where_not_validated(reports, params):
    lines = (reports / "curves.csv").read_text().splitlines()
    assert lines[0].startswith("arm,seed,update,alpha,reward,dev_reward,dev_pauc,reply_rate")
    assert len(lines) == 1 + len(params.arms) * len(params.seeds) * 4
    assert lines[1].startswith("grpo,0,1,1.0,")


def test_pages_fetch_nothing_and_run_their_own_scripts_only(reports):
    for path in (reports / "index.html", reports / "cards" / "index.html", next((reports / "cards").glob("grpo-*"))):
        page = path.read_text()
        found = Loads(page)
        assert all(value.startswith(("data:image/jpeg", "#")) for value in found.fetched)
        assert not re.search(r"url\((?!#|data:image/jpeg)|@import", page.split("<script>")[0])
        assert len(found.ids) == len(set(found.ids))
        own = [kind for kind in found.scripts if kind is None]
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
        assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
        assert len(own) == policy.count("'sha256-") <= 2
        assert "unsafe-eval" not in policy


def test_the_report_writes_the_same_bytes_again(reports, experiment, params, tmp_path):
    analyze(experiment, params, tmp_path)
    report(experiment, params, tmp_path)
    pages = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert (tmp_path / page).read_bytes() == (reports / page).read_bytes(), page


def test_the_page_tells_what_was_measured(reports):
    page = (reports / "index.html").read_text()
    for phrase in (
        "different denominators", "does not mean fewer repeats", "not comparable", "n = 3 seeds", "ovo_timing 70 of 72 items",
        "blind: metronome", "rule-3", "21.20 %", "53.15 %", "75.7 %", "Sweep and credit together", "3 seeds tell little",
    ):  # fmt: skip
        assert phrase in page, phrase


@pytest.mark.parametrize("said", [HOSTILE, "' onmouseover=alert(1) x='\"", '[x](sql:flips/a?b "1")'])
def test_what_the_model_said_is_text_everywhere(tmp_path, said):
    params = params_with(seeds=[0], arms={"grpo": {"credit": "grpo"}, "turnwise": {"credit": "turnwise", "alpha": 1.0}})
    write_experiment(tmp_path, params, updates=1, said=said)
    analyze(tmp_path, params, tmp_path / "reports")
    report(tmp_path, params, tmp_path / "reports")
    pages = [path.read_text() for path in (tmp_path / "reports").rglob("*.html")]
    assert sum(str(escape(said)) in page for page in pages) > 10
    for page in pages:
        assert said not in page
        Loads(page)


def test_json_in_a_page_ends_no_script():
    value = {"arm": "</script><!--<script>&"}
    text = in_script(value)
    assert json.loads(text) == value
    assert not set("<>&") & set(text)


def test_sections_without_data_are_left_out_and_come_with_it(tmp_path):
    arms = {"grpo": {"credit": "grpo"}, "turn_mean": {"credit": "grpo", "aggregation": "turn-mean"}}
    halves = {
        f"half_{place}": {"credit": "turnwise", "alpha": 0.5, "aggregation": how}
        for place, how in enumerate(("turn-mean", "seq-mean-token-mean"))
    }
    params = params_with(seeds=[0, 1], arms=arms)
    write_experiment(tmp_path, params, updates=1)
    out = tmp_path / "reports"
    analyze(tmp_path, params, out)
    shutil.rmtree(tmp_path / "timings")
    report(tmp_path, params, out)
    ids = Loads((out / "index.html").read_text()).ids
    assert not {"alpha", "judges", "time", "warnings", "sql-judges", "sql-phases"} & set(ids)
    params = params_with(seeds=[0, 1], arms={**arms, **halves})
    write_experiment(tmp_path, params, updates=2)
    write_json(tmp_path / "state" / "judges" / "train--strict.json", COMPARISON)
    analyze(tmp_path, params, out)
    report(tmp_path, params, out)
    page = (out / "index.html").read_text()
    assert {"alpha", "judges", "time", "warnings", "sql-judges", "sql-phases"} <= set(Loads(page).ids)
    assert "rule-5 → strict-5" in page


def test_without_analysis_the_report_says_what_to_run(tmp_path):
    params = params_with(seeds=[0])
    write_experiment(tmp_path, params, updates=1)
    with pytest.raises(UserError, match=r"ablation.json.*dvc repro analyze"):
        report(tmp_path, params, tmp_path / "reports")


def test_timings_count_each_update_once_and_the_last_run_that_ended(tmp_path, params):
    folder = tmp_path / "timings"
    cell = folder / "rl" / "grpo-0.jsonl"
    first = {"update": 1, "rollout": 9.0, "sweep": 9.0, "total": 18.0}
    again = {"update": 1, "rollout": 2.0, "sweep": 1.0, "total": 3.0}
    beyond = {**again, "update": params.rl.updates + 1}
    write_jsonl(cell, [first, beyond, {"seconds": 50.0, "peak_mb": 9.0}, again, {"seconds": 4.0, "peak_mb": 7.0}])
    write_jsonl(folder / "rl" / "earlier-0.jsonl", [first])
    write_jsonl(folder / "sft" / "1.jsonl", [{"seconds": 5.0, "peak_mb": 3.0}, {"seconds": 6.0, "peak_mb": 3.0}])
    write_jsonl(folder / "rl" / "turnwise-0.jsonl", [first])
    found = read_timings(folder, params)
    assert found.stages == [Stage("sft", 1, 6.0, 3.0), Stage("rl", 1, 3.0, 7.0)]
    assert found.phases == {"rollout": 11.0, "sweep": 10.0}
    assert read_timings(tmp_path / "none", params) is None
    build_catalogue(tmp_path / CATALOGUE, tmp_path, [(arm, 0) for arm in params.arms], {})
    asked = {name: query(tmp_path / CATALOGUE, queries(params)[name].sql).to_pylist() for name in ("stages", "phases")}
    rows = [(row["stage"], row["cells"], row["seconds"], row["peak_mb"]) for row in asked["stages"]]
    assert sorted(rows) == sorted(map(astuple, found.stages))
    assert {row["phase"]: row["seconds"] for row in asked["phases"]} == found.phases


def _table(difference):
    entry = {"difference": difference, "published": 43.56}
    return {"reference": "grpo", "seeds": [0, 1, 2], "arms": {"turnwise": {"metrics": {"pauc": entry}}}}


@pytest.mark.parametrize(
    ("interval", "verdict", "agreement"),
    [
        ([1.0, 3.0], "Yes, better in PAUC:", "paper: 1 of its 1 differences"),
        ([-3.0, -1.0], "No, worse in PAUC:", "the opposite, just as clearly: PAUC of `turnwise`"),
        ([-1.0, 3.0], "No difference that 3 seeds tell from chance:", "about half), 0 of them"),
    ],
)
def test_the_answer_says_what_the_interval_allows(params, interval, verdict, agreement):
    table = _table({"mean": sum(interval) / 2, "n": 3, "interval": interval})
    assert verdict in effect_sentence(table, "turnwise")
    assert agreement in agreement_sentence(table, params)


def test_the_answer_without_a_reference_claims_no_effect(params):
    table = {"reference": None, "seeds": [0], "arms": {"sft": {}, "credit": {}}}
    assert "no arms to compare" in effect_sentence(table, "credit")
    assert agreement_sentence(table, params) is None


@pytest.mark.parametrize(
    ("decisions", "said"),
    [(10, r"10.00 % had another sign .*; no reply was judged repeated\.$"), (0, r"^Every group .* equal rewards")],
)
def test_the_credit_sentence_says_what_there_was_none_of(decisions, said):
    counts = {"decisions": decisions, "flip_share": 0.1, "mixed_share": 0.5}
    flips = {"main": "a", "published": SIGN_FLIPS, "arms": {"a": {"pooled": counts}}}
    repeats = {"published": REDUNDANCY, "arms": {"a": {"pooled": {"replies": 0}}}}
    assert re.search(said, plain(credit_sentence(flips, repeats)))


def test_a_torn_file_or_other_arms_are_one_message(experiment, reports, params, tmp_path):
    shutil.copytree(reports, tmp_path / "reports")
    fewer = params.model_copy(update={"arms": {"turnwise": params.arms["turnwise"]}})
    with pytest.raises(UserError, match=r"ablation\.json: has other arms"):
        report(experiment, fewer, tmp_path / "reports")
    for name, field in (("truth.json", "arm"), ("redundancy.json", "arms"), ("figures/curves.vl.json", "")):
        path = tmp_path / "reports" / name
        whole = path.read_text()
        for damage, message in ((whole[:-5], "not valid JSON"), ("{}", f"{field}: is missing"), (None, "no such file")):
            path.unlink() if damage is None else path.write_text(damage)
            if damage != "{}" or field:
                with pytest.raises(UserError, match=f"{message}.*`dvc repro analyze`"):
                    report(experiment, params, tmp_path / "reports")
        path.write_text(whole)


def test_damage_in_what_an_experiment_left_is_one_message(tmp_path):
    params = params_with(seeds=[0], arms={"grpo": {"credit": "grpo"}})
    write_experiment(tmp_path, params)
    analyze(tmp_path, params, tmp_path / "reports")

    def refused(path, damage, message, act=report):
        whole = path.read_bytes() if path.is_file() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damage)
        with pytest.raises(UserError, match=message):
            act(tmp_path, params, tmp_path / "reports")
        path.unlink() if whole is None else path.write_bytes(whole)

    episodes = tmp_path / "data/rl.jsonl"
    refused(tmp_path / "timings/rl/grpo-0.jsonl", b'{"update": 1, "tot', r"grpo-0\.jsonl:1: no line of timings")
    refused(tmp_path / "state/judges/a--b.json", b"{}", r"a--b\.json: cells: is missing; run `turnwise judge compare`")
    refused(tmp_path / "runs/grpo/0/eval/metrics.json", b"{}", r"metrics\.json: pauc: is missing", analyze)
    refused(episodes, episodes.read_bytes().partition(b"\n")[2], r"rl\.jsonl: id: 'e0' is missing, which runs|'e0'")
    report(tmp_path, params, tmp_path / "reports")


def test_the_report_brings_its_tables_along(tmp_path):
    params = params_with(seeds=[0], arms={"grpo": {"credit": "grpo"}})
    write_experiment(tmp_path, params)
    analyze(tmp_path, params, tmp_path / "reports")
    (tmp_path / CATALOGUE).unlink()
    report(tmp_path, params, tmp_path / "reports")
    found = query(tmp_path / CATALOGUE, "select distinct arm from cells order by arm").to_pylist()
    assert found == [{"arm": "grpo"}, {"arm": "sft"}]
