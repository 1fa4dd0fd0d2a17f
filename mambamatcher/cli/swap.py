"""`mambamatcher swap`: the target's object with the look of the source's."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engines import Device


def swap(
    source: Annotated[Path, typer.Argument(help="The picture whose object gives its look.")],
    target: Annotated[Path, typer.Argument(help="The picture whose object gets it.")],
    out: Annotated[Path, typer.Option(help="The picture to write.")],
    source_mask: Annotated[
        Path | None, typer.Option(help="SOURCE's object; found by the features if not given.")
    ] = None,
    target_mask: Annotated[
        Path | None, typer.Option(help="TARGET's object; found by the features if not given.")
    ] = None,
    matched_out: Annotated[Path | None, typer.Option(help="Also write a mask of where there is a match.")] = None,
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    device: Device = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing pictures.")] = False,
) -> None:
    """Put the texture of SOURCE's object onto TARGET's; where there is no match, TARGET stays as it is.

    Example: mambamatcher swap tabby.jpg white-cat.jpg --out swapped.png
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.io.images import load_image
    from mambamatcher.matching.result import check_picture_name, save_picture
    from mambamatcher.tools.edit import object_mask, read_layer, swap_texture
    from mambamatcher.tools.flow import dense_flow

    for path in (out, matched_out):  # before a model is loaded
        if path is not None:
            check_picture_name(path)
            refuse_existing(path, overwrite)
    pictures = load_image(source), load_image(target)
    given = [
        None if path is None else read_layer(path, "L", picture.size)
        for path, picture in zip((source_mask, target_mask), pictures, strict=True)
    ]
    matcher = load_matcher(model, device)
    masks = [
        object_mask(matcher.foreground(picture), picture.size) if mask is None else mask
        for mask, picture in zip(given, pictures, strict=True)
    ]
    flow = dense_flow(matcher.prepare(*pictures))
    swapped, share = swap_texture(flow, *pictures, *masks)
    save_picture(swapped, out, overwrite)
    if matched_out is not None:
        save_picture(flow.matched(pictures[1].size), matched_out, overwrite)
    typer.echo(f"wrote {out}; {100 * share:.0f} % of the target's object replaced, the rest has no match")
