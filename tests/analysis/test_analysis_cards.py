"""Trajectories by name, the choice of the gallery, and what a card shows."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import yaml
from analysis_experiment import params_with
from PIL import Image
from typer.testing import CliRunner

from turnwise.analysis import draw_card, show_card
from turnwise.analysis.cards import HALF, Stage, _in_lanes
from turnwise.analysis.cells import find_cells
from turnwise.analysis.pages import in_shell
from turnwise.analysis.trajectories import PICKED, TYPICAL, find, gallery, summaries, telling
from turnwise.analysis.vega import write_png
from turnwise.cli import app
from turnwise.config import PARAMS
from turnwise.episodes import read_episodes
from turnwise.errors import UserError
from turnwise.files import write_text


@pytest.fixture(scope="module")
def there(experiment, params):
    return {cell: summaries(cell) for cell in find_cells(experiment, params)}


@pytest.fixture(scope="module")
def stage(experiment):
    return Stage({one.id: one for one in read_episodes(experiment / "data/rl.jsonl")}, experiment / "data", 5)


def test_summaries_count_as_a_plain_loop_does(there):
    cell, ones = next(iter(there.items()))
    rows = cell.table("decisions").to_pylist()
    assert len(ones) == len({(row["update"], row["episode"], row["trajectory"]) for row in rows})
    for one in ones:
        own = [
            r for r in rows if (r["update"], r["episode"], r["trajectory"]) == (one.update, one.episode, one.trajectory)
        ]
        spoken = [r for r in own if r["kind"] != "silence"]
        assert one.replies == len(spoken)
        assert one.repeated == sum(bool(r["repeat"]) for r in spoken)
        assert one.flipped == sum(bool(r["flipped"]) for r in spoken)
        assert one.flipped_repeats == sum(bool(r["flipped"] and r["repeat"]) for r in spoken)
        assert one.mixed == (min(r["advantage_turn"] for r in own) < 0 < max(r["advantage_turn"] for r in own))


def test_the_gallery_takes_so_many_of_each_cell_and_says_why(there):
    chosen = gallery(there.values())
    assert len({one.name for one in chosen}) == len({one.file for one in chosen}) == len(chosen)
    for cell, ones in there.items():
        own = [one for one in chosen if one.cell == cell]
        assert 0 < sum(one.why == "picked" for one in own) <= PICKED
        assert {ones[0].name, ones[-1].name} <= {one.name for one in own}
        assert len(own) <= PICKED + TYPICAL
        assert all(one.flipped for one in own if one.why == "picked")


def test_telling_trajectories_are_of_both_kinds(there):
    (_, good), (_, poor) = telling(one for ones in there.values() for one in ones)
    assert good.advantage > 0 > poor.advantage
    assert good.flipped_repeats > 0
    assert poor.flipped > poor.flipped_repeats
    assert good.episode != poor.episode


def test_a_card_shows_its_rows_at_their_place(there, stage):
    (_, one), *_ = telling(one for ones in there.values() for one in ones)
    card = stage.card(one)
    rows = [
        r
        for r in one.cell.table("decisions").to_pylist()
        if f"{r['update']}/{r['episode']}/{r['trajectory']}" in one.name
    ]
    assert [turn["turn"] for turn in card.turns] == [row["turn"] for row in rows]
    tips = [-turn["height"] if turn["advantage_turn"] > 0 else turn["height"] for turn in card.turns]
    assert tips == pytest.approx([-HALF * row["advantage_turn"] / card.scale for row in rows], abs=0.1)
    assert np.all(np.diff([turn["x"] for turn in card.turns]) > 0)
    assert [turn["number"] for turn in card.replies] == list(range(1, one.replies + 1))
    assert sum(turn["gain"] for turn in card.turns) == pytest.approx(one.reward - card.silent_reward)
    repeats = [turn for turn in card.replies if turn["repeat"]]
    assert all("repeated" in turn["verdict"] for turn in repeats)
    assert {turn["mark"] for turn in card.replies} <= {"4/4", "1/4", "again", "\N{EN DASH}"}
    assert [band["window"].text for band in card.windows] == [window.text for window in card.episode.windows]


def test_windows_that_overlap_lie_in_lanes():
    bands = [{"x": x, "right": right} for x, right in ((0.0, 5.0), (4.0, 9.0), (5.0, 6.0), (4.5, 7.0))]
    assert [band["lane"] for band in _in_lanes(bands)] == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope", "is named arm/seed/update"),
        ("grpo/x/1/e0/0", "is named arm/seed/update"),
        ("grpo/7/1/e0/0", "no cell grpo-7"),
        ("../runs/grpo/0/1/e0/0", "is named"),
        ("grpo/0/9/e0/0", "no update 9 there; it has 1, 2"),
        ("grpo/0/1/e0/x/0", "no episode 'e0/x' there; it has e0, e1"),
        ("grpo/0/1/e0/50", "no trajectory 50"),
    ],
)
def test_a_name_of_none_is_refused(experiment, name, said):
    with pytest.raises(UserError, match=said):
        find(experiment / "runs", name)


def test_any_trajectory_is_a_page_and_a_picture(experiment, params, tmp_path):
    page = show_card(experiment, params, "credit/1/2/e1/3", tmp_path)
    assert page == tmp_path / "credit-1-2-e1-3.html"
    assert '<h1 class="name">credit/1/2/e1/3</h1>' in page.read_text()
    draw_card(experiment, params, "credit/1/2/e1/3", tmp_path / "card.png")
    picture = Image.open(tmp_path / "card.png").convert("RGB")
    assert picture.width == 2080
    assert picture.getpixel((5, 5)) == (255, 255, 255)
    assert len(picture.getcolors(1 << 24)) > 50


def test_show_is_a_command(experiment, monkeypatch):
    monkeypatch.chdir(experiment)
    write_text(PARAMS, yaml.safe_dump(params_with().model_dump(mode="json")))
    found = CliRunner().invoke(app, ["show", "grpo/0/1/e0/2"], catch_exceptions=False)
    assert found.output == ".cache/cards/grpo-0-1-e0-2.html\n"
    assert (experiment / found.output.strip()).is_file()
    assert "turnwise sql" in CliRunner().invoke(app, ["show", "--help"]).output


def test_a_folder_is_not_replaced_by_a_picture(tmp_path, monkeypatch, experiment):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/keep.txt").write_text("kept")
    monkeypatch.chdir(experiment)
    result = CliRunner().invoke(app, ["show", "grpo/0/1/e0/0", "--png", str(tmp_path / "mine")])
    assert "is a folder" in str(result.exception)
    assert (tmp_path / "mine/keep.txt").read_text() == "kept"


def test_a_picture_shows_what_xml_cannot_hold_as_a_mark(tmp_path):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>a\x19\x00\ufffeb</text></svg>'
    write_png(svg, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["plain/0/1", "a $(touch gone) `id` \"b\" \\ 'c'", "$HOME"])
def test_a_word_for_the_shell_is_one_word_and_runs_nothing(text):
    said = subprocess.run(["bash", "-c", f"printf %s {in_shell(text)}"], capture_output=True, text=True, check=True)
    assert said.stdout == text


def test_every_trajectory_has_a_page_of_its_own(experiment, params):
    one = summaries(find_cells(experiment, params)[0])[0]
    files = [replace(one, episode=episode).file for episode in ("a-b", "a/b", "a_b", "a b", "x" * 300, "x" * 301)]
    assert len(set(files)) == 6
    assert max(map(len, files)) < 150
