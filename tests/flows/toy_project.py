"""A toy project: the real dvc.yaml and flow over stages that do nothing but write what they declare."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ARMS = {"grpo": {"credit": "grpo"}, "turnwise": {"credit": "turnwise", "alpha": 1.0}}


class Toy:
    """A project in a scratch folder with two arms and two seeds."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def wish(self, stages: dict[str, dict[str, Any]]) -> None:
        """Say how stages behave: `seconds` to take, `status` to exit with."""
        (self.root / "toy.json").write_text(json.dumps(stages))

    def keep_seeds(self, *seeds: int) -> None:
        """Name these seeds in params.yaml."""
        self._edit(lambda params: params.update(seeds=list(seeds)))

    def change_arm(self, arm: str, **fields: Any) -> None:
        """Edit one arm of params.yaml."""
        self._edit(lambda params: params["arms"][arm].update(fields))

    def _edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.root / "params.yaml"
        params = yaml.safe_load(path.read_text())
        change(params)
        path.write_text(yaml.safe_dump(params, sort_keys=False))


def make_toy(root: Path) -> Toy:
    """Build the toy project in an empty folder."""
    for folder in (".dvc", "flows"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("tmp", "cache", "__pycache__"))
    for file in (".dvcignore", ".gitignore", "prefect.yaml", "prefect.toml"):
        shutil.copy(ROOT / file, root / file)
    graph = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    (root / "tasks").mkdir()
    for name, stage in graph["stages"].items():
        stage["deps"] = [dep for dep in stage.get("deps", []) if not dep.startswith(("tasks/", "turnwise/"))]
        shutil.copy(ROOT / "tests/flows/toy.py", root / "tasks" / f"{name.removesuffix('_sft')}.py")
    (root / "dvc.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    params = yaml.safe_load((ROOT / "profiles/embedded.yaml").read_text())
    params = {"profiles": ["toy"], **params, "arms": {k: dict(v) for k, v in ARMS.items()}, "seeds": [0, 1]}
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    toy = Toy(root)
    toy.wish({})
    return toy
