"""The table of commands, and the one place that turns an error into two lines and an exit code."""

import sys

import typer

from day0 import __version__
from day0.cli.analyze import analyze
from day0.cli.checklist import checklist
from day0.cli.diff import difference
from day0.cli.output import errors, never_fail_on_letters
from day0.cli.run import run
from day0.cli.scaffold import scaffold
from day0.cli.validate import validate
from day0.errors import Day0Error

app = typer.Typer(
    name="day0",
    help="Release-day tool for new language models: what is new, is it proved, what does it need.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(analyze)
app.command()(run)
app.command()(checklist)
app.command("diff")(difference)
app.command()(scaffold)
app.command()(validate)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Release-day tool for new language models."""


def main() -> None:
    """Run the command line; a Day0Error becomes two lines on stderr and its exit code."""
    never_fail_on_letters()
    try:
        app()
    except Day0Error as error:
        console = errors()
        console.print(f"error: {error.message}", markup=False, soft_wrap=True)
        if error.hint:
            console.print(f"hint: {error.hint}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
