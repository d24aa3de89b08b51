"""The documents as a site: built from the files as they stand, with their code and links whole."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize(
    ("page", "source"), [("index", "README"), ("tutorial", "docs/tutorial"), ("judges", "docs/judges")]
)
def test_code_stands_as_it_is_written(site, page, source):
    shown = html.unescape(re.sub(r"<[^>]+>", "", (site / f"{page}.html").read_text()))
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / f"{source}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert block.strip() in shown, block


def test_links_lead_to_pages_of_the_site(site):
    for page in set(site.glob("*.html")) - {site / "404.html"}:
        for target in re.findall(r'href="(?!https?:)([^"#]+)', page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)
