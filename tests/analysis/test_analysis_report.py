"""The figures and the page: same bytes, nothing from outside, nothing the model said is markup."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from analysis_experiment import params_with, write_experiment

from turnwise.analysis import analyze, report
from turnwise.analysis.answer import agreement_sentence, credit_sentence, effect_sentence
from turnwise.analysis.cards import BARS, HALF, build_card, choose
from turnwise.analysis.cells import find_cells
from turnwise.analysis.published import REDUNDANCY, SIGN_FLIPS
from turnwise.analysis.report import inline_svg
from turnwise.analysis.timings import Stage, read_timings
from turnwise.episodes import read_episodes
from turnwise.errors import UserError
from turnwise.files import write_jsonl

HOSTILE = '</svg><script>alert("reply")</script>'


@pytest.fixture(scope="module")
def reports(experiment, params) -> Path:
    analyze(experiment, params, experiment / "reports")
    report(experiment, params, experiment / "reports")
    return experiment / "reports"


class Loads(HTMLParser):
    """Collects what a page would fetch, and the scripts in it."""

    def __init__(self, page: str):
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        if tag != "a":
            self.fetched += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data", "srcset")]


def test_analyze_writes_the_same_bytes_again(reports, experiment, params, tmp_path):
    analyze(experiment, params, tmp_path)
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert {path.name for path in written} == {
        "ablation.csv", "ablation.json", "curves.csv", "sign_flips.json", "redundancy.json",
        "ablation.svg", "advantages.svg", "curves.svg", "redundancy.svg",
    }  # fmt: skip
    for path in written:
        assert (tmp_path / path).read_bytes() == (reports / path).read_bytes(), path


def test_curves_have_a_line_an_update_and_empty_fields_where_not_validated(reports, params):
    lines = (reports / "curves.csv").read_text().splitlines()
    assert lines[0].startswith("arm,seed,update,alpha,reward,dev_reward,dev_pauc,reply_rate")
    assert len(lines) == 1 + len(params.arms) * len(params.seeds) * 4
    assert lines[1].startswith("grpo,0,1,1.0,")


def test_the_page_fetches_nothing_and_has_no_script(reports):
    page = (reports / "index.html").read_text()
    found = Loads(page)
    assert all(value.startswith(("data:image/jpeg", "#")) for value in found.fetched)
    assert "script" not in found.tags
    assert not re.search(r"url\((?!#)|@import", page)
    assert len(found.ids) == len(set(found.ids))


def test_the_page_tells_what_was_measured(reports):
    page = (reports / "index.html").read_text()
    for phrase in (
        "different denominators", "does not mean fewer repeats", "not comparable", "n = 3 seeds", "ovo_timing 70 of 72 items",
        "blind: metronome", "rule-3", "21.20 %", "53.15 %", "75.7 %", "Sweep and credit together",
    ):  # fmt: skip
        assert phrase in page, phrase


def test_replies_are_escaped(tmp_path):
    params = params_with(seeds=[0])
    write_experiment(tmp_path, params, updates=2, said=HOSTILE)
    analyze(tmp_path, params, tmp_path / "reports")
    report(tmp_path, params, tmp_path / "reports")
    page = (tmp_path / "reports" / "index.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert" in page


def test_cards_show_flipped_replies_at_their_place(experiment, params):
    cells = [cell for cell in find_cells(experiment, params) if cell.arm != "sft"]
    choices = choose(cells)
    assert len(choices) == 4
    good = choices[0].rows
    assert good[0]["advantage_global"] > 0
    assert any(row["repeat"] and row["advantage_turn"] < 0 for row in good)
    assert choices[2].rows[0]["advantage_global"] < 0
    episode = next(e for e in read_episodes(experiment / "data" / "rl.jsonl") if e.id == good[0]["episode"])
    card = build_card(choices[0], episode, experiment / "data")
    assert card.dash < BARS
    tops = [turn["top"] + (turn["height"] if turn["advantage_turn"] < 0 else 0) for turn in card.turns]
    expected = [BARS - HALF * turn["advantage_turn"] / card.scale for turn in card.turns]
    assert tops == pytest.approx(expected, abs=0.1)
    assert [turn["x"] for turn in card.turns] == sorted(turn["x"] for turn in card.turns)
    assert [band["window"].text for band in card.windows] == [window.text for window in episode.windows]


def test_inlined_figures_keep_their_references():
    svg = '<?xml?><svg xmlns="x"><metadata>m</metadata><clipPath id="p"/><use xlink:href="#p" style="fill: #1f2329"/></svg>'
    assert inline_svg("f", svg) == '<svg><clipPath id="f-p"/><use xlink:href="#f-p" style="fill: var(--ink)"/></svg>'


def test_without_analysis_the_report_says_what_to_run(tmp_path):
    params = params_with(seeds=[0])
    write_experiment(tmp_path, params, updates=1)
    with pytest.raises(UserError, match=r"ablation.json.*dvc repro analyze"):
        report(tmp_path, params, tmp_path / "reports")


def test_timings_count_each_update_once_and_the_last_run(tmp_path, params):
    cell = tmp_path / "rl" / "grpo-0.jsonl"
    first = {"update": 1, "rollout": 9.0, "sweep": 9.0, "total": 18.0}
    again = {"update": 1, "rollout": 2.0, "sweep": 1.0, "total": 3.0}
    beyond = {**again, "update": params.rl.updates + 1}
    write_jsonl(cell, [first, beyond, {"seconds": 50.0, "peak_mb": 9.0}, again, {"seconds": 4.0, "peak_mb": 7.0}])
    write_jsonl(tmp_path / "rl" / "earlier-0.jsonl", [first])
    write_jsonl(tmp_path / "sft" / "1.jsonl", [{"seconds": 5.0, "peak_mb": 3.0}, {"seconds": 6.0, "peak_mb": 3.0}])
    found = read_timings(tmp_path, params)
    assert found.stages == [Stage("sft", 1, 6.0, 3.0), Stage("rl", 1, 3.0, 7.0)]
    assert found.phases == {"rollout": 2.0, "sweep": 1.0}
    assert read_timings(tmp_path / "none", params) is None


def _table(difference):
    entry = {"difference": difference, "published": 43.56}
    return {"reference": "grpo", "seeds": [0, 1, 2], "arms": {"turnwise": {"metrics": {"pauc": entry}}}}


@pytest.mark.parametrize(
    ("interval", "verdict", "agreement"),
    [
        ([1.0, 3.0], "better in PAUC", "paper: 1 of its 1 differences"),
        ([-3.0, -1.0], "worse in PAUC", "the opposite, just as clearly: PAUC of `turnwise`"),
        ([-1.0, 3.0], "no difference that 3 seeds tell from chance", "about half), 0 of them"),
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
    assert re.search(said, credit_sentence(flips, repeats))
