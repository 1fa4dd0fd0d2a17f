"""`mambamatcher match`: transfer points from one image to another."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.cli.engine_options import Device, Runtime, RuntimeName, Threads
from mambamatcher.cli.model_options import Model, Threshold, set_threshold
from mambamatcher.errors import ConfigError, InputError, MissingExtraError

if TYPE_CHECKING:
    import numpy as np

    from mambamatcher.io.points import PointSet
    from mambamatcher.matching.matcher import Matcher, MatchResult


def match(
    source: Annotated[Path, typer.Argument(help="Image with the points.")],
    target: Annotated[Path, typer.Argument(help="Image to find them in.")],
    points: Annotated[list[str] | None, typer.Option(help="Point x,y in pixels; can be repeated.")] = None,
    points_file: Annotated[
        Path | None, typer.Option(help="Points as JSON, CSV or COCO keypoints; hidden and absent ones are skipped.")
    ] = None,
    model: Model = None,
    threshold: Threshold = None,
    device: Device = None,
    runtime: Runtime = None,
    threads: Threads = None,
    top_k: Annotated[int, typer.Option(min=1, help="Report up to that many distinct candidates per point.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Save the matches as an image.")] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Save the heat map of each point as an image.")] = None,
    points_out: Annotated[
        Path | None, typer.Option(help="Save the points found: .json, .csv, or .coco.json for COCO keypoints.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
) -> None:
    """Transfer points from SOURCE to TARGET. Without points, they are spread evenly over the foreground of SOURCE.

    Example: mambamatcher match cat.jpg other-cat.jpg --points 120,80 --points 64,200 --out matches.png
    """
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.io.images import require_file
    from mambamatcher.io.points import check_format, make_points, write_points
    from mambamatcher.matching.result import check_image_name

    for path in (source, target):  # before the model is loaded, which takes seconds
        require_file(path)
    wanted = gather_points([parse_point(text) for text in points or []], points_file, source)
    for result_file, check in ((out, check_image_name), (heatmap, check_image_name), (points_out, check_format)):
        if result_file is not None:
            check(result_file)
            refuse_existing(result_file, overwrite)
    typed_only = wanted is None or points_file is None
    matcher = set_threshold(load_matcher(model, device, runtime, threads), threshold)
    wanted = make_points(matcher.suggest_points(source)) if wanted is None else wanted
    result = matcher.match(source, target, wanted.points, top_k=top_k)
    if out is not None:
        result.save(out, overwrite, names=None if typed_only else wanted.names)
    if heatmap is not None:
        result.save_heatmaps(heatmap, overwrite)
    if points_out is not None:
        write_points(points_out, {target.name: found_points(result, wanted.names)}, overwrite)
    if as_json:
        content = result.to_dict()
        content["matches"] = [
            {"name": name, **entry} for name, entry in zip(wanted.names, content["matches"], strict=True)
        ]
        typer.echo(json.dumps(content, indent=2))
        return
    print_table(result, wanted.names)
    for result_file in (out, heatmap, points_out):
        if result_file is not None:
            typer.echo(f"wrote {result_file}")


def gather_points(typed: list[tuple[float, float]], file: Path | None, source: Path) -> "PointSet | None":
    """Combine the points of a file with typed ones, which are named by their position in the combined list.

    Args:
        typed: Points (x, y) in pixels.
        file: A points file, or None.
        source: The image that the points are on; selects its points in a file of several images.

    Returns:
        The points, or None if neither is given.

    Raises:
        InputError: The file cannot be read or has no visible point for `source`, and none are typed.
    """
    import numpy as np

    from mambamatcher.io.points import make_points, read_points

    if file is None:
        return make_points(typed) if typed else None
    read = read_points(file, source).visible()
    if not typed and not len(read.names):
        raise InputError(f"{file} has no visible point for {source.name}")
    names = [*read.names, *(str(len(read.names) + number) for number in range(1, len(typed) + 1))]
    return make_points(np.concatenate([read.points, np.array(typed).reshape(-1, 2)]), names)


def found_points(result: "MatchResult", names: tuple[str, ...]) -> "PointSet":
    """Return the matches as points of the target. Those below the threshold keep their place and count as hidden."""
    import numpy as np

    from mambamatcher.io.points import HIDDEN, VISIBLE, PointSet

    return PointSet(
        points=result.points,
        names=names,
        visibility=np.where(result.matched, VISIBLE, HIDDEN),
        confidence=result.confidence,
        size=result.target.size,
    )


def load_matcher(
    model: str | None, device: str | None = None, runtime: RuntimeName | None = None, threads: int | None = None
) -> "Matcher":
    """Load a folder if there is one of that name, else a shipped model, else a preset, which runs in PyTorch."""
    from mambamatcher.matching.matcher import Matcher
    from mambamatcher.model.saved import SHIPPED
    from mambamatcher.registry import unknown

    if model is None or Path(model).is_dir() or model in SHIPPED:
        matcher = Matcher.from_pretrained(model, runtime=runtime, threads=threads, device=device)
        _limit_torch(threads)
        return matcher
    if find_spec("torch") is None:
        raise MissingExtraError(
            f"{unknown('model', model, SHIPPED)} A preset needs PyTorch; run: pip install 'mambamatcher[torch]'"
        )
    from mambamatcher.model.presets import PRESETS

    if model not in PRESETS:
        raise unknown("model", model, (*SHIPPED, *PRESETS))
    if runtime == "onnx":
        raise ConfigError(f"the preset {model} has no trained weights and runs in PyTorch only; use --runtime torch")
    _limit_torch(threads)
    return Matcher.from_preset(model, device=device)


def _limit_torch(threads: int | None) -> None:
    """Set the number of PyTorch's threads, which is one number for the whole process."""
    if threads is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def parse_point(text: str) -> tuple[float, float]:
    """Parse `x,y`."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"a point is written as two numbers x,y, got {text!r}") from error
    return x, y


def print_table(result: "MatchResult", names: tuple[str, ...]) -> None:
    """Print a row per point, and one for each further candidate."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("point", "source x, y", "target x, y", "confidence", "matched"):
        table.add_column(column, justify="right")
    for index, name in enumerate(names):
        matched = "yes" if result.matched[index] else "no"
        source, target = to_text(result.source_points[index]), to_text(result.points[index])
        table.add_row(name, source, target, f"{result.confidence[index]:.2f}", matched)
        if result.modes is not None:
            for mode in range(1, int(result.modes.present[index].sum())):
                candidate, confidence = result.modes.points[index, mode], result.modes.confidence[index, mode]
                table.add_row("", "or", to_text(candidate), f"{confidence:.2f}", "")
    Console(markup=False).print(table)


def to_text(point: "np.ndarray") -> str:
    """Format a point with one decimal."""
    return f"{point[0]:.1f}, {point[1]:.1f}"
