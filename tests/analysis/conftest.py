"""The experiment that the tests of this room read."""

from pathlib import Path

import pytest
from analysis_experiment import params_with, write_experiment

from turnwise.analysis import analyze, report
from turnwise.config import Params


@pytest.fixture(scope="session")
def params() -> Params:
    return params_with()


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory, params: Params) -> Path:
    """Root of a finished experiment with the default arms and seeds."""
    root = tmp_path_factory.mktemp("experiment")
    write_experiment(root, params)
    return root


@pytest.fixture(scope="session")
def reports(experiment: Path, params: Params) -> Path:
    """Its folder of reports."""
    analyze(experiment, params, experiment / "reports")
    report(experiment, params, experiment / "reports")
    return experiment / "reports"
