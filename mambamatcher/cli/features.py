"""`mambamatcher features`: a model's features of many images, as Parquet."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engine_options import Address, Device, Engine, EngineName, Workers, load_for_run
from mambamatcher.cli.model_options import Model


def features(
    images: Annotated[Path, typer.Argument(help="A folder, a manifest with one path per line, or Parquet.")],
    out: Annotated[Path, typer.Option(help="The folder for the results.")],
    model: Model = None,
    device: Device = None,
    engine: Engine = EngineName.local,
    address: Address = None,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Compute the features of IMAGES; the same command resumes after a stop.

    OUT/parts gets Parquet with the columns image, width, height, shape (level, channel, h, w), features and error.

    Example: mambamatcher features photos/ --out features --engine ray --workers 8
    """
    from mambamatcher.jobs.engines import make_engine
    from mambamatcher.jobs.source import read_source, require_parquet
    from mambamatcher.tools.features import extract_features

    require_parquet()  # before a model is loaded
    chosen = make_engine(engine, address, workers, device)
    source = read_source(images)
    done = extract_features(load_for_run(model, engine, device), source, out, chosen, overwrite)
    if as_json:
        typer.echo(json.dumps(asdict(done)))
        return
    typer.echo(f"{done.images} images, {done.unreadable} of them unreadable; wrote {out / 'parts'}")
