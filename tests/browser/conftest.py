"""A browser, and a small finished experiment whose policy says things that would be markup."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import Page, chromium, installed

if TYPE_CHECKING:
    from turnwise.config import Params

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
def params() -> "Params":
    """Two arms, two seeds."""
    from analysis_experiment import params_with

    arms = {"grpo": {"credit": "grpo"}, "turnwise": {"credit": "turnwise", "alpha": 1.0, "aggregation": "turn-mean"}}
    return params_with(seeds=[0, 1], arms=arms)


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory, params: "Params") -> Path:
    """The reports of their experiment."""
    from analysis_experiment import HOSTILE, write_experiment

    from turnwise.analysis import analyze, report

    root = tmp_path_factory.mktemp("experiment")
    write_experiment(root, params, updates=3, said=HOSTILE)
    analyze(root, params, root / "reports")
    report(root, params, root / "reports")
    return root / "reports"
