"""Carrying masks, overlays, edits and texture from the source to the target through the flow.

Only where there is a match: elsewhere a carried mask is black, and a target stays as it is.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Bool
from PIL import Image, ImageChops, ImageFilter, ImageStat

from mambamatcher.errors import InputError
from mambamatcher.io.images import load_image, turn_upright
from mambamatcher.tools.flow import Flow

EDITED = 12  # of 255: a smaller difference may be compression
FEATHER = 1 / 150  # of the picture's longer side: how soft the edge of what is put in is


def read_layer(path: Path, mode: str, size: tuple[int, int]) -> Image.Image:
    """Read a mask ("L"), an overlay ("RGBA") or an edited copy ("RGB") that covers a source of that size."""
    load_image(path)  # says what is wrong with a file that is no picture
    with Image.open(path) as opened:
        layer = turn_upright(opened).convert(mode)
    if layer.size != size:
        raise InputError(
            f"{path} is {layer.width}x{layer.height} pixels, the source {size[0]}x{size[1]}; they must be the same"
        )
    return layer


def carry_mask(flow: Flow, mask: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Carry a mask of the source to a target of that size."""
    return ImageChops.multiply(flow.warp(mask.convert("L"), size), flow.matched(size))


def carry_overlay(flow: Flow, overlay: Image.Image, target: Image.Image) -> Image.Image:
    """Lay a partly transparent picture, made for the source, over the target."""
    # colours under full transparency must not bleed into the edge
    opacity = flow.warp(overlay.getchannel("A"), target.size)
    opaque = np.asarray(overlay.convert("RGBa").convert("RGBA").convert("RGB"))
    colours = flow.warp(Image.fromarray(opaque), target.size)
    return Image.composite(colours, target, ImageChops.multiply(opacity, flow.matched(target.size)))


def carry_edit(flow: Flow, source: Image.Image, edited: Image.Image, target: Image.Image) -> Image.Image:
    """Carry to the target what an edited copy of the source has changed."""
    changed = np.asarray(ImageChops.difference(source, edited)).max(axis=2) > EDITED
    if not changed.any():
        raise InputError("the edited copy does not differ from the source")
    mask = flow.warp(_white_where(changed), target.size)
    return _put(flow.warp(edited, target.size), target, ImageChops.multiply(mask, flow.matched(target.size)))


def swap_texture(
    flow: Flow,
    source: Image.Image,
    target: Image.Image,
    source_object: Image.Image,
    target_object: Image.Image,
) -> tuple[Image.Image, float]:
    """Put the look of the source's object onto the target's, inside both masks and where there is a match.

    Also returns the share of the target's object that was replaced.
    """
    inside = ImageChops.multiply(flow.warp(source_object, target.size), target_object)
    replaced = ImageChops.multiply(inside, flow.matched(target.size))
    share = ImageStat.Stat(replaced).mean[0] / max(ImageStat.Stat(target_object).mean[0], 1e-9)
    return _put(flow.warp(source, target.size), target, replaced), share


def object_mask(foreground: Bool[np.ndarray, "h w"], size: tuple[int, int]) -> Image.Image:
    """Return a grid's foreground as a mask of a picture's size."""
    return _white_where(foreground).resize(size, Image.Resampling.BICUBIC)


def _white_where(mask: Bool[np.ndarray, "h w"]) -> Image.Image:
    return Image.fromarray(np.where(mask, 255, 0).astype(np.uint8))


def _put(picture: Image.Image, target: Image.Image, mask: Image.Image) -> Image.Image:
    radius = FEATHER * max(target.size)
    return Image.composite(picture, target, mask.filter(ImageFilter.GaussianBlur(radius)))
