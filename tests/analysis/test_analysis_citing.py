"""Every number that cites is what its SQL gives, as the page shows that SQL."""

import html
import re
from html.parser import HTMLParser
from urllib.parse import parse_qsl

import pytest

from turnwise.analysis.citing import cite, plain
from turnwise.analysis.citing import html as as_html
from turnwise.tables import query


class Numbers(HTMLParser):
    """The cited numbers of a page: (query, column, row, value, text)."""

    def __init__(self, page: str):
        super().__init__()
        self._open: dict[str, str] = {}
        self.found: list[tuple[str, str, dict[str, str], float, str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._open = dict(attrs) if tag == "a" else {}

    def handle_data(self, data):
        if "data-value" in self._open:
            row = dict(parse_qsl(self._open["data-row"]))
            self.found.append(
                (self._open["data-query"], self._open["data-column"], row, float(self._open["data-value"]), data)
            )
            self._open = {}


@pytest.fixture(scope="module")
def page(reports) -> str:
    return (reports / "index.html").read_text()


@pytest.fixture(scope="module")
def queries(page) -> dict[str, str]:
    shown = re.findall(r'<details class="query" id="sql-(\w+)">.*?<pre><code>(.*?)</code></pre>', page, flags=re.DOTALL)
    return {name: html.unescape(sql) for name, sql in shown}


def test_every_number_is_what_its_sql_gives(experiment, page, queries):
    numbers = Numbers(page).found
    assert len(numbers) > 250
    answers = {name: query(experiment / "turnwise.duckdb", sql).to_pylist() for name, sql in queries.items()}
    for name, column, row, value, text in numbers:
        fits = [one for one in answers[name] if all(str(one[key]) == wanted for key, wanted in row.items())]
        assert len(fits) == 1 or not row, (name, row)
        assert float(fits[0][column]) == pytest.approx(value, rel=1e-9), (name, column, row)
        if re.fullmatch(r"[+\N{MINUS SIGN}]?[\d.,]+( %)?", text):
            shown = float(text.replace("\N{MINUS SIGN}", "-").replace(",", "").removesuffix(" %"))
            assert value * (100 if text.endswith("%") or column == "flip_share" else 1) == pytest.approx(
                shown, abs=0.051
            )


def test_every_kind_of_number_cites_and_every_link_has_its_query(page, queries):
    cited = {name for name, *_ in Numbers(page).found}
    assert cited >= {
        "scores",
        "differences",
        "seeds",
        "blind",
        "flips",
        "flips_by_seed",
        "repeats",
        "truth",
        "phases",
        "stages",
        "warnings",
    }
    assert set(re.findall(r'<a class="q" href="#sql-(\w+)"', page)) <= queries.keys()
    assert not [sql for sql in queries.values() if '"' in sql], "the copied command is in double quotes"


def test_a_citation_is_text_a_link_or_plain_and_escapes_all_it_holds():
    sentence = f"<b> of `grpo` {cite('1.5', 'flips', 'share', 1.5, arm='a&b <x>')} {cite('-', 'flips', 'share', None)}"
    assert plain(sentence) == "<b> of `grpo` 1.5 -"
    shown = as_html(sentence)
    assert shown.startswith("&lt;b&gt; of <code>grpo</code> <a ")
    assert 'title="share where arm = a&amp;b &lt;x&gt;"' in shown
