"""`turnwise profile`: choose the experiment that `params.yaml` describes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli.settings import SETTINGS
from turnwise.errors import UserError

profile = typer.Typer(help="Choose the experiment that `params.yaml` describes.", **SETTINGS)

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Profiles, laid over `embedded`; the later one wins.")
]


@profile.command("use")
def use(names: Names) -> None:
    """Write `params.yaml` from profiles, over whatever it held.

    Examples:

    - the complete default: `turnwise profile use embedded`

    - the same, small: `turnwise profile use embedded smoke`
    """
    from turnwise.config import PARAMS, compose
    from turnwise.files import write_text

    values = compose(names)
    write_text(PARAMS, params_yaml(values))
    arms, seeds = ", ".join(values["arms"]), ", ".join(map(str, values["seeds"]))
    print(f"{PARAMS}: {' + '.join(values['profiles'])} (arms {arms}; seeds {seeds}); `dvc repro` runs it")


@profile.command("list")
def list_profiles() -> None:
    """List the profiles there are, each with the first line that it says of itself."""
    paths = sorted(Path("profiles").glob("*.yaml"), key=lambda path: path.stem)
    if not paths:
        raise UserError("profiles: no profile here; run this in the repository's root")
    for path in paths:
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        print(f"{path.stem:<18}{first.removeprefix('#').strip() if first.startswith('#') else ''}".rstrip())


@profile.command("show")
def show(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None) -> None:
    """Show what profiles would write; without a name, what `params.yaml` is made of and what was edited since.

    Examples:

    - where the present parameters come from: `turnwise profile show`

    - what `turnwise profile use smoke` would write: `turnwise profile show smoke`
    """
    from turnwise.config import PARAMS, compose, read_yaml, validate

    if names:
        print(params_yaml(compose(names)), end="")
        return
    present = read_yaml(PARAMS)
    source = validate(present, PARAMS).profiles
    print(f"{PARAMS}: {' + '.join(source)}")
    for field, (before, after) in _differences(compose(list(source)), present).items():
        print(f"  {field}: {_flow(before)} -> {_flow(after)}")


def _differences(before: Any, after: Any, field: str = "") -> dict[str, tuple[Any, Any]]:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return {} if before == after else {field: (before, after)}
    changed: dict[str, tuple[Any, Any]] = {}
    for key in before | after:
        changed |= _differences(before.get(key), after.get(key), f"{field}.{key}" if field else key)
    return changed


def params_yaml(values: dict[str, Any]) -> str:
    """`params.yaml` as text: a header, then a section a key with one field, or one arm, a line."""
    lines = [
        f"# Written by `turnwise profile use {' '.join(values['profiles'])}`; edit it freely.",
        "# `turnwise profile show` tells what was edited. Every field is described in turnwise/config.",
    ]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {_flow({name: field})[1:-1]}" for name, field in value.items())]
        else:
            lines.append(_flow({key: value})[1:-1])
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").strip()
