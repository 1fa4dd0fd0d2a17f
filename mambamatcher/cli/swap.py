"""`mambamatcher swap`: transfer the texture of one object to another."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engine_options import Device
from mambamatcher.cli.model_options import Model


def swap(
    source: Annotated[Path, typer.Argument(help="Image with the object to take the texture from.")],
    target: Annotated[Path, typer.Argument(help="Image with the object to change.")],
    out: Annotated[Path, typer.Option(help="Image to write.")],
    source_mask: Annotated[
        Path | None, typer.Option(help="Mask of the object in SOURCE. Default: estimated from the features.")
    ] = None,
    target_mask: Annotated[
        Path | None, typer.Option(help="Mask of the object in TARGET. Default: estimated from the features.")
    ] = None,
    matched_out: Annotated[Path | None, typer.Option(help="Also write a mask of the matched pixels.")] = None,
    model: Model = None,
    device: Device = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
) -> None:
    """Put the texture of the object in SOURCE onto the object in TARGET. Pixels without a match do not change.

    Example: mambamatcher swap tabby.jpg white-cat.jpg --out swapped.png
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.io.images import load_image
    from mambamatcher.matching.result import check_image_name, save_image
    from mambamatcher.tools.edit import object_mask, read_layer, swap_texture
    from mambamatcher.tools.flow import dense_flow

    for path in (out, matched_out):  # before a model is loaded
        if path is not None:
            check_image_name(path)
            refuse_existing(path, overwrite)
    images = load_image(source), load_image(target)
    given = [
        None if path is None else read_layer(path, "L", image.size)
        for path, image in zip((source_mask, target_mask), images, strict=True)
    ]
    matcher = load_matcher(model, device)
    masks = [
        object_mask(matcher.foreground(image), image.size) if mask is None else mask
        for mask, image in zip(given, images, strict=True)
    ]
    flow = dense_flow(matcher.prepare(*images))
    swapped, share = swap_texture(flow, *images, *masks)
    save_image(swapped, out, overwrite)
    if matched_out is not None:
        save_image(flow.matched(images[1].size), matched_out, overwrite)
    typer.echo(f"wrote {out}; {100 * share:.0f} % of the target's object replaced, the rest has no match")
