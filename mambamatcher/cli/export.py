"""`mambamatcher export`: a model for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.match import load_matcher


def export(
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write backbone and feature aggregation as ONNX: images in [0, 1] to features.

    Example: mambamatcher export --onnx features.onnx --model lite
    """
    from mambamatcher.export import export_onnx
    from mambamatcher.files import refuse_existing

    refuse_existing(onnx, overwrite)
    export_onnx(load_matcher(model).model, onnx, overwrite)
    typer.echo(f"wrote {onnx}")
