"""`turnwise show`: one trajectory over time, as a page or a picture."""

import sys
from pathlib import Path
from typing import Annotated

import typer

PLACE = Path(".cache") / "cards"


def show(
    trajectory: Annotated[
        str, typer.Argument(help="Its name, arm/seed/update/episode/trajectory.", show_default=False)
    ],
    png: Annotated[
        Path | None, typer.Option("--png", help="Write the card there as a PNG, 2080 pixels wide.", show_default=False)
    ] = None,
) -> None:
    """Draw any trajectory: frames, query, windows, what was said and judged, and both advantages of each decision.

    Without --png: a page below `.cache/cards`, which a terminal opens in the browser. The gallery of
    `reports/cards/index.html` has a choice of them. To find one, ask for the parts of its name:

    `turnwise sql "select arm, seed, update, episode, trajectory, count(*) from decisions where flipped and repeat
    group by all order by all desc limit 5"`

    Examples:

    - `turnwise show turnwise/0/12/rl-0003-1/5`

    - `turnwise show turnwise/0/12/rl-0003-1/5 --png card.png`
    """
    from turnwise.analysis import draw_card, show_card
    from turnwise.config import read_params

    params = read_params()
    if png is not None:
        draw_card(Path(), params, trajectory, png)
        print(png)
        return
    page = show_card(Path(), params, trajectory, PLACE)
    print(page)
    if sys.stdout.isatty():
        typer.launch(str(page))
