"""The `turnwise` command: choose an experiment, ask its tables, rebuild its views.

One module a command or group of commands. Heavy modules load inside the commands.
"""

import sys
from typing import Annotated

import typer

import turnwise
from turnwise.cli.asking import sql
from turnwise.cli.doctor import doctor
from turnwise.cli.eval import evaluation
from turnwise.cli.judge import judge
from turnwise.cli.profiles import profile
from turnwise.cli.rollout import rollout
from turnwise.cli.settings import SETTINGS
from turnwise.cli.show import show
from turnwise.cli.views import report, track
from turnwise.errors import UserError, lacked

app = typer.Typer(
    add_completion=False,
    help="Turn-level credit for reinforcement learning of streaming-video models. Run it in the repository's root.",
    **SETTINGS,
)
app.add_typer(profile, name="profile")
app.add_typer(judge, name="judge")
app.add_typer(evaluation, name="eval")
for command in (rollout, show, sql, track, report, doctor):
    app.command()(command)


def main() -> None:
    """Run the command line. A UserError becomes one message on standard error and exit status 2; so does what the
    machine lacks, with exit status 1.
    """
    try:
        app()
    except UserError as error:
        sys.exit(_say(str(error), 2))
    except Exception as error:
        lack = lacked(error)
        if lack is None:
            raise
        sys.exit(_say(lack, 1))


def _say(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def _version(wanted: bool) -> None:
    if wanted:
        print(turnwise.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
