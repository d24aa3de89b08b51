"""What `turnwise judge compare` left: how far two judges agree on the same roll-outs, and what the other would change."""

from pathlib import Path
from typing import Any

from turnwise.files import read_json

PLACE = Path("state") / "judges"


def read_comparisons(root: Path) -> dict[str, dict[str, Any]]:
    """The comparisons below `root` by name (`train--strict`); empty where there are none. They are outside every promise
    of identity, as they are of no stage.

    Raises UserError for a damaged file.
    """
    remedy = "run `turnwise judge compare` again or delete it"
    paths = sorted((root / PLACE).glob("*--*.json"))
    return {path.stem: read_json(path, remedy, "cells", "judges", "reward", "ranks", "signs") for path in paths}
