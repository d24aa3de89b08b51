"""What `turnwise judge compare` left: how far two judges agree on the same roll-outs, and what the other would change."""

import json
from pathlib import Path
from typing import Any

from turnwise.errors import UserError

PLACE = Path("state") / "judges"


def read_comparisons(root: Path) -> dict[str, dict[str, Any]]:
    """The comparisons below `root` by name (`train--strict`); empty where there are none. They are outside every promise
    of identity, as they are of no stage.

    Raises UserError for a file that is no JSON.
    """
    found = {}
    for path in sorted((root / PLACE).glob("*--*.json")):
        try:
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}: not valid JSON ({error}); run `turnwise judge compare` again or delete it"
            ) from None
    return found
