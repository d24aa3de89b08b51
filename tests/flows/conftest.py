"""A toy project in a scratch folder, which is the working directory."""

from pathlib import Path

import pytest
from toy_project import Toy, make_toy


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A fresh toy project, which is the working directory."""
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    root = tmp_path / "toy"
    root.mkdir()
    monkeypatch.chdir(root)
    return make_toy(root)
