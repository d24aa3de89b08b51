"""A browser, and a small finished experiment whose policy says things that would be markup."""

import sys
from pathlib import Path

import pytest
from chromium import Page, chromium, installed

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))


@pytest.fixture(scope="session")
def browser():
    """A page to open files in; without a browser the tests are skipped."""
    program = installed()
    if program is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH; `apt-get install chromium` brings one")
    with chromium(program) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """The page, with nothing on its console yet."""
    browser.console.clear()
    return browser


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of two arms and two seeds."""
    from analysis_experiment import HOSTILE, params_with, write_experiment

    from turnwise.analysis import analyze, report

    root = tmp_path_factory.mktemp("experiment")
    arms = {"grpo": {"credit": "grpo"}, "turnwise": {"credit": "turnwise", "alpha": 1.0, "aggregation": "turn-mean"}}
    params = params_with(seeds=[0, 1], arms=arms)
    write_experiment(root, params, updates=3, said=HOSTILE)
    analyze(root, params, root / "reports")
    report(root, params, root / "reports")
    return root / "reports"
