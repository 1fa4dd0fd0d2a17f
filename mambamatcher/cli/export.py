"""`mambamatcher export`: save a model as a folder or as ONNX."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.match import load_matcher
from mambamatcher.cli.model_options import Model
from mambamatcher.extras import naming_extra


def export(
    onnx: Annotated[Path | None, typer.Option(help="ONNX file to write.")] = None,
    pair: Annotated[Path | None, typer.Option(help="ONNX file of a whole match to write.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder for weights and configuration.")] = None,
    model: Model = None,
    average: Annotated[
        list[Path] | None, typer.Option(help="Folder of a saved model to average the weights with; may be repeated.")
    ] = None,
    half: Annotated[bool, typer.Option(help="Store the folder's weights in half precision.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the configuration.")
    ] = None,
) -> None:
    """Save the whole model as a folder, its features as ONNX, or a whole match as ONNX.

    --onnx takes images in [0, 1] and returns features. --pair takes two images and points, and returns points and
    confidence; its metadata says in which frames. A folder of a model with a linear head runs without PyTorch.

    Example: mambamatcher export --onnx features.onnx --model lite
    """
    from mambamatcher.errors import ConfigError
    from mambamatcher.io.atomic import refuse_existing

    with naming_extra("export"):
        from mambamatcher.matching.pair_export import export_pair
        from mambamatcher.model.checkpoint import load_pretrained, reconfigured, save_pretrained, take_mean
        from mambamatcher.model.config import override
        from mambamatcher.model.onnx_export import export_onnx

    if onnx is None and pair is None and folder is None:
        raise ConfigError("there is nothing to write; give --onnx FILE, --pair FILE or --folder FOLDER")
    for path in (onnx, pair):
        if path is not None:
            refuse_existing(path, overwrite)
    matcher = load_matcher(model, runtime="torch")
    loaded = matcher.model
    take_mean(loaded, [load_pretrained(each) for each in average or ()])
    if overrides:
        loaded = reconfigured(loaded, override(loaded.config, overrides))
    if onnx is not None:
        export_onnx(loaded, onnx, overwrite)
    if pair is not None:
        export_pair(loaded, matcher.calibration, pair, overwrite)
    if folder is not None:
        runs_without_torch = loaded.linear and find_spec("onnxscript") is not None
        save_pretrained(loaded, folder, overwrite, half, graph=runs_without_torch)
    typer.echo(f"wrote {' and '.join(str(path) for path in (onnx, pair, folder) if path is not None)}")
