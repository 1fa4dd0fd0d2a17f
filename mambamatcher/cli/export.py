"""`mambamatcher export`: a model for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.match import load_matcher


def export(
    onnx: Annotated[Path | None, typer.Option(help="The ONNX file to write.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The folder to write weights and configuration to.")] = None,
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    average: Annotated[
        list[Path] | None, typer.Option(help="Saved models whose weights are averaged with the model's.")
    ] = None,
    half: Annotated[bool, typer.Option(help="Write the folder's weights in half precision.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace what exists.")] = False,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Model changes.")] = None,
) -> None:
    """Write backbone and feature aggregation as ONNX, images in [0, 1] to features, or the whole model as a folder.

    Example: mambamatcher export --onnx features.onnx --model lite
    """
    from mambamatcher.errors import ConfigError
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.model.checkpoint import load_pretrained, reconfigured, save_pretrained, take_mean
    from mambamatcher.model.config import override
    from mambamatcher.model.onnx_export import export_onnx

    if onnx is None and folder is None:
        raise ConfigError("there is nothing to write; give --onnx FILE or --folder FOLDER")
    if onnx is not None:
        refuse_existing(onnx, overwrite)
    loaded = load_matcher(model).model
    take_mean(loaded, [load_pretrained(each) for each in average or ()])
    if overrides:
        loaded = reconfigured(loaded, override(loaded.config, overrides))
    if onnx is not None:
        export_onnx(loaded, onnx, overwrite)
    if folder is not None:
        save_pretrained(loaded, folder, overwrite, half)
    typer.echo(f"wrote {' and '.join(str(path) for path in (onnx, folder) if path is not None)}")
