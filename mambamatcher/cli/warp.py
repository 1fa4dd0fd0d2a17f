"""`mambamatcher warp`: transfer a mask, an overlay or an edit from one image to another."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engine_options import Device
from mambamatcher.cli.model_options import Model
from mambamatcher.errors import InputError


def warp(
    source: Annotated[Path, typer.Argument(help="Image that the mask, overlay or edit was made for.")],
    target: Annotated[Path, typer.Argument(help="Image to transfer it to.")],
    out: Annotated[Path, typer.Option(help="Image to write.")],
    mask: Annotated[Path | None, typer.Option(help="Mask of SOURCE; OUT is then the mask of TARGET.")] = None,
    overlay: Annotated[Path | None, typer.Option(help="Partly transparent image that lies over SOURCE.")] = None,
    edit: Annotated[Path | None, typer.Option(help="Edited copy of SOURCE; TARGET gets the same changes.")] = None,
    matched_out: Annotated[Path | None, typer.Option(help="Also write a mask of the matched pixels.")] = None,
    model: Model = None,
    device: Device = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
) -> None:
    """Transfer a mask, an overlay or an edit of SOURCE, an image of the same size, to TARGET.

    Pixels without a match are black in a mask and do not change in TARGET.

    Example: mambamatcher warp cat.jpg other-cat.jpg --mask cat-mask.png --out other-mask.png
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.io.images import load_image
    from mambamatcher.matching.result import check_image_name, save_image
    from mambamatcher.tools.edit import read_layer, transfer_edit, transfer_mask, transfer_overlay
    from mambamatcher.tools.flow import TRUSTED, dense_flow

    modes = {"L": mask, "RGBA": overlay, "RGB": edit}
    given = [(mode, path) for mode, path in modes.items() if path is not None]
    if len(given) != 1:
        raise InputError(f"give one of --mask, --overlay and --edit; {len(given)} were given")
    for path in (out, matched_out):  # before a model is loaded
        if path is not None:
            check_image_name(path)
            refuse_existing(path, overwrite)
    images = load_image(source), load_image(target)
    mode, path = given[0]
    layer = read_layer(path, mode, images[0].size)
    flow = dense_flow(load_matcher(model, device).prepare(*images))
    if mode == "L":
        warped = transfer_mask(flow, layer, images[1].size)
    elif mode == "RGBA":
        warped = transfer_overlay(flow, layer, images[1])
    else:
        warped = transfer_edit(flow, images[0], layer, images[1])
    save_image(warped, out, overwrite)
    if matched_out is not None:
        save_image(flow.matched(images[1].size), matched_out, overwrite)
    share = float((flow.trust > TRUSTED).mean())
    typer.echo(f"wrote {out}; {100 * share:.0f} % of the target has a match")
