"""The command line. Each command has its own file; errors that a user can fix become one sentence and exit code 2."""

import sys
from itertools import islice
from typing import Annotated

import typer

from mambamatcher import __version__
from mambamatcher.cli import (
    analyze,
    benchmark,
    calibrate,
    compare,
    data,
    evaluate,
    export,
    features,
    info,
    match,
    propagate,
    reproduce,
    review,
    serve,
    swap,
    train,
    warp,
)
from mambamatcher.errors import MambaMatcherError
from mambamatcher.extras import naming_extra
from mambamatcher.plugins import load_plugins

app = typer.Typer(
    name="mambamatcher",
    help="Find for a point on one object the same point on a different object of its kind.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("match")(match.match)
app.command("propagate")(propagate.propagate)
app.command("review")(review.review)
app.command("warp")(warp.warp)
app.command("swap")(swap.swap)
app.command("calibrate")(calibrate.calibrate)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("features")(features.features)
app.add_typer(data.app, name="data")
app.add_typer(benchmark.app, name="benchmark")
app.command("reproduce")(reproduce.reproduce)
app.command("analyze")(analyze.analyze)
app.command("export")(export.export)
app.command("info")(info.info)
app.command("train")(train.train)
app.command("serve")(serve.serve)


def _show_version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"mambamatcher {__version__}")
        raise typer.Exit


@app.callback()
def options(
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Import a module that registers parts; can be repeated."),
    ] = None,
    show_version: Annotated[
        bool | None, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None:
    """Semantic correspondence on the command line."""
    load_plugins(modules or ())


def imports_first(arguments: list[str]) -> list[str]:
    """Move `--import MODULE` to the front, so that it may also follow the verb it is for.

    Example:
        >>> imports_first(["evaluate", "default", "--import", "mine", "--json"])
        ['--import', 'mine', 'evaluate', 'default', '--json']
    """
    first: list[str] = []
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--import":
            first += [argument, *islice(left, 1)]
        else:
            (first if argument.startswith("--import=") else rest).append(argument)
    return [*first, *rest]


def main() -> None:
    """Run the command line."""
    try:
        with naming_extra():
            app(imports_first(sys.argv[1:]))
    except MambaMatcherError as error:
        typer.echo(f"mambamatcher: {error}", err=True)
        sys.exit(2)
