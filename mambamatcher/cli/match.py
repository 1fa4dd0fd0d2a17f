"""`mambamatcher match`: carry points from one picture to another."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.errors import InputError

if TYPE_CHECKING:
    from mambamatcher.matcher import Matcher, MatchResult


def match(
    source: Annotated[Path, typer.Argument(help="The picture the points are on.")],
    target: Annotated[Path, typer.Argument(help="The picture to find them in.")],
    points: Annotated[list[str] | None, typer.Option(help="A point x,y in pixels; repeat for more.")] = None,
    points_file: Annotated[Path | None, typer.Option(help='JSON: [[x, y], ...] or {"points": [[x, y], ...]}.')] = None,
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the matches as a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing picture.")] = False,
) -> None:
    """Find in TARGET the points given on SOURCE.

    Example: mambamatcher match cat.jpg other-cat.jpg --points 120,80 --points 64,200 --out matches.png
    """
    from mambamatcher.images import require_file

    for path in (source, target):  # before a model is loaded
        require_file(path)
    wanted = [parse_point(text) for text in points or []] + (read_points(points_file) if points_file else [])
    if not wanted:
        raise InputError("there are no points; give --points x,y or --points-file FILE")
    if out is not None:
        from mambamatcher.files import refuse_existing

        refuse_existing(out, overwrite)
    result = load_matcher(model).match(source, target, wanted)
    if out is not None:
        result.save(out, overwrite)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
    else:
        print_table(result)
        if out is not None:
            typer.echo(f"wrote {out}")


def load_matcher(model: str | None) -> "Matcher":
    """Take a folder if there is one of that name, else a preset."""
    from mambamatcher.matcher import Matcher

    if model is None or Path(model).is_dir():
        return Matcher.from_pretrained(model)
    return Matcher.from_preset(model)


def parse_point(text: str) -> tuple[float, float]:
    """Read `x,y`."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"a point is written x,y (two numbers), got {text!r}") from error
    return x, y


def read_points(path: Path) -> list[tuple[float, float]]:
    """Read points from a JSON file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values = values["points"] if isinstance(values, dict) else values
        return [(float(x), float(y)) for x, y in values]
    except OSError as error:
        raise InputError(f"cannot read points from {path}: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f'{path} must be JSON like [[x, y], ...] or {{"points": [[x, y], ...]}}: {error}') from error


def print_table(result: "MatchResult") -> None:
    """Print one line per point."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("#", "source x, y", "target x, y", "confidence"):
        table.add_column(column, justify="right")
    for number, (s, t, c) in enumerate(zip(result.source_points, result.points, result.confidence, strict=True), 1):
        table.add_row(str(number), f"{s[0]:.1f}, {s[1]:.1f}", f"{t[0]:.1f}, {t[1]:.1f}", f"{c:.2f}")
    Console().print(table)
