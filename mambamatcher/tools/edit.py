"""Transfer masks, overlays, edits and texture from the source image to the target with a dense flow.

Only matched pixels are transferred. Elsewhere a mask is black and the target image is unchanged.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Bool
from PIL import Image, ImageChops, ImageFilter, ImageStat

from mambamatcher.errors import InputError
from mambamatcher.io.decoding import turn_upright
from mambamatcher.io.images import load_image
from mambamatcher.tools.flow import Flow

EDITED = 12  # of 255: smaller differences may be compression artefacts
FEATHER = 1 / 150  # blur radius at the edge of a pasted region, as a fraction of the longer image side


def read_layer(path: Path, mode: str, size: tuple[int, int]) -> Image.Image:
    """Read a mask, an overlay or an edited copy of the source image.

    Args:
        path: Image file.
        mode: Pillow mode to convert to: "L" for a mask, "RGBA" for an overlay, "RGB" for an edited copy.
        size: Width and height of the source image, which the layer must have too.

    Raises:
        InputError: The file is not a readable image, or its size differs.
    """
    load_image(path)  # raises a clear error if the file is not an image
    with Image.open(path) as opened:
        layer = turn_upright(opened).convert(mode)
    if layer.size != size:
        raise InputError(
            f"{path} has {layer.width}x{layer.height} pixels and the source {size[0]}x{size[1]}; they must be the same"
        )
    return layer


def transfer_mask(flow: Flow, mask: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Transfer a mask of the source image to the target.

    Args:
        flow: Dense flow from the target to the source.
        mask: Mask of the source image.
        size: Width and height of the target image.

    Returns:
        Mask of the target image, black where there is no match.
    """
    return ImageChops.multiply(flow.warp(mask.convert("L"), size), flow.matched(size))


def transfer_overlay(flow: Flow, overlay: Image.Image, target: Image.Image) -> Image.Image:
    """Blend an RGBA overlay made for the source image into the target.

    Args:
        flow: Dense flow from the target to the source.
        overlay: RGBA image of the size of the source image.
        target: Target image.

    Returns:
        The target image with the overlay.
    """
    # the colours of fully transparent pixels must not bleed into the edges
    opacity = flow.warp(overlay.getchannel("A"), target.size)
    opaque = np.asarray(overlay.convert("RGBa").convert("RGBA").convert("RGB"))
    colours = flow.warp(Image.fromarray(opaque), target.size)
    return Image.composite(colours, target, ImageChops.multiply(opacity, flow.matched(target.size)))


def transfer_edit(flow: Flow, source: Image.Image, edited: Image.Image, target: Image.Image) -> Image.Image:
    """Transfer the pixels that differ between the source image and an edited copy to the target.

    Args:
        flow: Dense flow from the target to the source.
        source: Original source image.
        edited: Edited copy of the source image, of the same size.
        target: Target image.

    Returns:
        The target image with the same edit.

    Raises:
        InputError: The copy does not differ from the source.
    """
    changed = np.asarray(ImageChops.difference(source, edited)).max(axis=2) > EDITED
    if not changed.any():
        raise InputError("the edited copy does not differ from the source")
    mask = flow.warp(_white_where(changed), target.size)
    return _paste(flow.warp(edited, target.size), target, ImageChops.multiply(mask, flow.matched(target.size)))


def swap_texture(
    flow: Flow,
    source: Image.Image,
    target: Image.Image,
    source_object: Image.Image,
    target_object: Image.Image,
) -> tuple[Image.Image, float]:
    """Replace the texture of the target's object by that of the source's, at matched pixels inside both masks.

    Args:
        flow: Dense flow from the target to the source.
        source: Source image.
        target: Target image.
        source_object: Mask of the object in the source image.
        target_object: Mask of the object in the target image.

    Returns:
        The target image with the new texture, and the fraction of its object that was replaced.
    """
    inside = ImageChops.multiply(flow.warp(source_object, target.size), target_object)
    replaced = ImageChops.multiply(inside, flow.matched(target.size))
    share = ImageStat.Stat(replaced).mean[0] / max(ImageStat.Stat(target_object).mean[0], 1e-9)
    return _paste(flow.warp(source, target.size), target, replaced), share


def object_mask(foreground: Bool[np.ndarray, "h w"], size: tuple[int, int]) -> Image.Image:
    """Resize the foreground of a feature grid to a mask of the size of the image."""
    return _white_where(foreground).resize(size, Image.Resampling.BICUBIC)


def _white_where(mask: Bool[np.ndarray, "h w"]) -> Image.Image:
    return Image.fromarray(np.where(mask, 255, 0).astype(np.uint8))


def _paste(image: Image.Image, target: Image.Image, mask: Image.Image) -> Image.Image:
    radius = FEATHER * max(target.size)
    return Image.composite(image, target, mask.filter(ImageFilter.GaussianBlur(radius)))
