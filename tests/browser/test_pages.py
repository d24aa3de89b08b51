"""The report, the gallery and a card as a person meets them: they load, show their numbers, and do what they offer."""

import json

import pytest
from analysis_experiment import HOSTILE
from chromium import SCREENSHOTS

MODES = {"light": {}, "dark": {"dark": True}, "narrow": {"width": 800}}
ENLIVEN = """(async () => {
  for (const chart of document.querySelectorAll(".chart")) {
    chart.scrollIntoView({behavior: "instant"});
    await new Promise((done) => setTimeout(done, 50));
  }
  scrollTo(0, 0);
})()"""

CHOOSE = """(() => {
  const form = document.forms.filters;
  [form.arm.value, form.seed.value] = ["turnwise", "1"];
  form.arm.dispatchEvent(new Event("input", {bubbles: true}));
})()"""


def enlivened(page) -> int:
    """Scroll through all charts; how many there are, each now drawn by the script."""
    page.run(ENLIVEN)
    page.wait("document.querySelectorAll('.chart:not([data-live])').length === 0")
    return page.run("document.querySelectorAll('.chart[data-live] svg').length")


@pytest.mark.parametrize("mode", MODES)
def test_the_report_opens_without_a_word_on_the_console(page, reports, mode):
    page.open(reports / "index.html", **MODES[mode])
    assert page.run("document.querySelectorAll('.chart svg').length") == 6, "pictures before any script draws"
    assert enlivened(page) == 6
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "the page does not scroll sideways"
    page.picture(SCREENSHOTS / f"report-{mode}.png")
    assert page.console == []
    assert page.run("document.title") == "TurnWise: turn-level credit, 2 seeds"


def test_the_report_shows_its_key_numbers(page, reports):
    page.open(reports / "index.html")
    text = page.run("document.body.innerText")
    numbers = {
        name: json.loads((reports / f"{name}.json").read_text())
        for name in ("ablation", "sign_flips", "redundancy", "truth")
    }
    pauc = numbers["ablation"]["arms"]["turnwise"]["metrics"]["pauc"]
    low, high = pauc["difference"]["interval"]
    flips, repeats = (numbers[name]["arms"]["turnwise"]["pooled"] for name in ("sign_flips", "redundancy"))
    angle, noise = (numbers["truth"][-1][name] for name in ("angle", "noise"))
    for shown in (
        f"{angle:.1f}\t{noise:.2f}",
        f"{pauc['mean']:.1f}", f"{pauc['difference']['mean']:+.1f} points [{low:+.1f} to {high:+.1f}]",
        f"{100 * flips['flip_share']:.2f} %", f"{100 * repeats['negative_turn']:.1f} %", "43.56", "2 seeds tell little",
    ):  # fmt: skip
        assert shown.replace("-", "\N{MINUS SIGN}") in text, shown


def test_the_theme_reaches_the_charts(page, reports):
    inks = []
    for mode in ("light", "dark"):
        page.open(reports / "index.html", **MODES[mode])
        enlivened(page)
        inks.append(page.run("getComputedStyle(document.querySelector('.chart text[fill=\"var(--ink)\"]')).fill"))
    assert inks == ["rgb(31, 35, 41)", "rgb(231, 234, 238)"]


def test_hovering_a_chart_tells_its_numbers(page, reports):
    page.open(reports / "index.html")
    enlivened(page)
    page.click("[data-chart=redundancy] path[aria-label*='negative']")
    page.wait("document.querySelector('#vg-tooltip-element.visible')")
    assert "replies" in page.run("document.querySelector('#vg-tooltip-element').innerText")


def test_a_tables_head_sorts_both_ways(page, reports):
    page.open(reports / "index.html")
    column = "[...document.querySelectorAll('#seeds tbody tr')].map((row) => parseFloat(row.cells[2].textContent))"
    for up in (True, False):
        page.click("#seeds thead th:nth-child(3)")
        values = page.run(column)
        assert len(values) == 6
        assert values == sorted(values, reverse=not up)


def test_a_number_shows_its_sql(page, reports):
    page.open(reports / "index.html")
    page.click("#ablation tr.main a.q")
    page.wait("document.querySelector('dialog').open")
    assert page.run("document.querySelector('#asked-sql').textContent").startswith("with metrics as (")
    assert page.run("document.querySelector('#asked-what').textContent").startswith(
        "mean where arm = turnwise, metric = pauc: "
    )
    page.picture(SCREENSHOTS / "report-sql.png")
    page.click("dialog form > button:last-of-type")
    page.wait("!document.querySelector('dialog').open")


def test_the_report_prints(page, reports):
    page.open(reports / "index.html")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.paper(SCREENSHOTS / "report.pdf")
    assert (SCREENSHOTS / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.console == []


@pytest.mark.parametrize("mode", MODES)
def test_the_gallery_filters(page, reports, mode):
    page.open(reports / "cards" / "index.html", **MODES[mode])
    total, shown = (
        page.run("document.querySelectorAll('.tile').length"),
        "document.querySelectorAll('.tile:not([hidden])').length",
    )
    assert page.run(shown) == total > 20
    page.picture(SCREENSHOTS / f"gallery-{mode}.png")
    page.run(CHOOSE)
    page.click("[name=repeated]")
    fits = page.run("document.querySelectorAll('.tile[data-arm=turnwise][data-seed=\"1\"][data-repeated]').length")
    assert 0 < fits == page.run(shown) < total
    assert page.run("document.querySelector('#shown').textContent") == f"{fits} shown"
    address = page.run("location.hash")
    assert address == "#arm=turnwise&seed=1&repeated=on"
    page.again()
    assert page.run(shown) == fits
    page.click("button[type=reset]")
    page.wait(f"{shown} === {total}")
    assert page.console == []


@pytest.mark.parametrize("mode", MODES)
def test_a_tile_leads_to_its_card(page, reports, mode):
    page.open(reports / "cards" / "index.html", **MODES[mode])
    name = page.run("document.querySelector('.tile[data-arm=turnwise]').getAttribute('href')")
    page.follow(".tile[data-arm=turnwise]")
    assert page.run("location.pathname").endswith(name)
    assert page.run("document.querySelector('h1').textContent").startswith("turnwise/")
    assert page.run("document.querySelectorAll('svg.c image').length") > 5
    assert HOSTILE in page.run("document.querySelector('table.said').textContent"), "what it said is text"
    assert page.run("document.querySelectorAll('.c-grpo').length") == 1
    page.picture(SCREENSHOTS / f"card-{mode}.png")
    assert page.console == []
