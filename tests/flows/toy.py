"""Stands in for every stage in a toy project: writes the outputs that dvc.yaml declares, from what it is told alone.

The file `toy.json` of the project may hold, by stage name, the seconds to take and the status to exit with.
"""

import json
import os
import sys
import time
from pathlib import Path

import yaml

NAME, _, KEY = os.environ["DVC_STAGE"].partition(":")[0].partition("@")


def main() -> None:
    """Run the stage that DVC started."""
    wish = json.loads(Path("toy.json").read_text()).get(os.environ["DVC_STAGE"], {})
    for step in range(4):
        time.sleep(wish.get("seconds", 0) / 4)
        print(json.dumps({"event": "progress", "label": NAME, "done": step + 1, "total": 4, "reward": step / 4}))
    if status := wish.get("status"):
        sys.exit(f"error: {NAME} was told to fail" if status == 1 else status)
    params = yaml.safe_load(Path("params.yaml").read_text())
    arm, _, seed = KEY.rpartition("-")
    for out in outs(arm, seed):
        write(out, f"{NAME} {KEY} {params['arms'].get(arm)}\n")


def outs(arm: str, seed: str) -> list[Path]:
    """Paths that this stage writes."""
    stage = yaml.safe_load(Path("dvc.yaml").read_text())["stages"][NAME]
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    names = [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]
    return [Path(name.replace("${item.arm}", arm).replace("${item.seed}", seed)) for name in names]


def write(out: Path, text: str) -> None:
    """Write one output: a folder with a file where it has no suffix."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == "":
        out.mkdir()
        out = out / "file.txt"
    out.write_text(json.dumps({"text": text}) if out.suffix == ".json" else text)


if __name__ == "__main__":
    main()
