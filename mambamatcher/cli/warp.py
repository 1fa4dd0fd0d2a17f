"""`mambamatcher warp`: carry a mask, an overlay or an edit from one picture to another."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engines import Device
from mambamatcher.errors import InputError


def warp(
    source: Annotated[Path, typer.Argument(help="The picture the mask, overlay or edit was made for.")],
    target: Annotated[Path, typer.Argument(help="The picture to carry it to.")],
    out: Annotated[Path, typer.Option(help="The picture to write.")],
    mask: Annotated[Path | None, typer.Option(help="A mask of SOURCE; OUT is the mask of TARGET.")] = None,
    overlay: Annotated[Path | None, typer.Option(help="A partly transparent picture to lie over it.")] = None,
    edit: Annotated[Path | None, typer.Option(help="An edited copy of SOURCE; its changes are made to TARGET.")] = None,
    matched_out: Annotated[Path | None, typer.Option(help="Also write a mask of where there is a match.")] = None,
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    device: Device = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing pictures.")] = False,
) -> None:
    """Carry a mask, an overlay or an edit of SOURCE, a picture of the same size, to TARGET.

    Where nothing in SOURCE matches, a mask is black and TARGET stays as it is.

    Example: mambamatcher warp cat.jpg other-cat.jpg --mask cat-mask.png --out other-mask.png
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.io.atomic import refuse_existing
    from mambamatcher.io.images import load_image
    from mambamatcher.matching.result import check_picture_name, save_picture
    from mambamatcher.tools.edit import carry_edit, carry_mask, carry_overlay, read_layer
    from mambamatcher.tools.flow import TRUSTED, dense_flow

    modes = {"L": mask, "RGBA": overlay, "RGB": edit}
    given = [(mode, path) for mode, path in modes.items() if path is not None]
    if len(given) != 1:
        raise InputError(f"give one of --mask, --overlay and --edit; {len(given)} were given")
    for path in (out, matched_out):  # before a model is loaded
        if path is not None:
            check_picture_name(path)
            refuse_existing(path, overwrite)
    pictures = load_image(source), load_image(target)
    mode, path = given[0]
    layer = read_layer(path, mode, pictures[0].size)
    flow = dense_flow(load_matcher(model, device).prepare(*pictures))
    if mode == "L":
        carried = carry_mask(flow, layer, pictures[1].size)
    elif mode == "RGBA":
        carried = carry_overlay(flow, layer, pictures[1])
    else:
        carried = carry_edit(flow, pictures[0], layer, pictures[1])
    save_picture(carried, out, overwrite)
    if matched_out is not None:
        save_picture(flow.matched(pictures[1].size), matched_out, overwrite)
    share = float((flow.trust > TRUSTED).mean())
    typer.echo(f"wrote {out}; {100 * share:.0f} % of the target has a match")
