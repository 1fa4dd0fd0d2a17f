"""Drawing points: on two images side by side, joined where they correspond, or on one image."""

import colorsys
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 480  # of the drawn images
GAP = 12
LEGEND = 28  # height of the strip that explains the colours
LONGEST_NAME = 30  # characters
SMOOTHING = 2  # drawn this many times larger, then reduced: Pillow draws without anti-aliasing
UNIT = 640  # longer side of an image up to which points on it are drawn in their smallest size
# doubtful to sure, told apart by the colour-blind as well
CONFIDENCE_COLOURS = ((0.0, (213, 94, 0)), (0.5, (245, 215, 60)), (1.0, (0, 158, 115)))
Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def distinct_colours(count: int) -> list[Colour]:
    """Return colours spread around the colour circle, neighbours far apart."""
    golden = 0.61803
    hues = ((0.02 + i * golden) % 1.0 for i in range(count))
    return [tuple(round(255 * c) for c in colorsys.hsv_to_rgb(h, 0.85, 1.0)) for h in hues]  # type: ignore[misc]


def confidence_colour(confidence: float) -> Colour:
    """Return orange for 0, yellow for one half and green for 1, and what lies between."""
    stops = [stop for stop, _ in CONFIDENCE_COLOURS]
    channels = zip(*(colour for _, colour in CONFIDENCE_COLOURS), strict=True)
    red, green, blue = (round(float(np.interp(confidence, stops, channel))) for channel in channels)
    return red, green, blue


def draw_matches(
    source: Image.Image,
    target: Image.Image,
    source_points: Float[np.ndarray, "keypoint 2"],
    target_points: Float[np.ndarray, "keypoint 2"],
    confidence: Float[np.ndarray, " keypoint"] | None = None,
    matched: Bool[np.ndarray, " keypoint"] | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Image.Image:
    """Draw named or numbered points on both images, joined by lines of the same colour.

    With `confidence` the colours say it, under a legend; points that are not `matched` are hollow and have no line.
    """
    height = HEIGHT * SMOOTHING
    panels = [image.resize((max(1, round(image.width * height / image.height)), height)) for image in (source, target)]
    offsets = (0, panels[0].width + GAP * SMOOTHING)
    strip = 0 if confidence is None else LEGEND * SMOOTHING
    canvas = Image.new("RGB", (offsets[1] + panels[1].width, height + strip), "white")
    ends = []
    for panel, offset, image, points in zip(
        panels, offsets, (source, target), (source_points, target_points), strict=True
    ):
        canvas.paste(panel, (offset, 0))
        ends.append(points * (height / image.height) + np.array([offset, 0.0]))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=11 * SMOOTHING)
    colours = distinct_colours(len(source_points)) if confidence is None else list(map(confidence_colour, confidence))
    filled = np.ones(len(source_points), dtype=bool) if matched is None else matched
    for start, end, colour, solid in zip(*ends, colours, filled, strict=True):
        if solid:
            _line(draw, start, end, colour)
    for points in ends:
        for number in np.argsort(filled, kind="stable"):  # the hollow ones below
            label = str(number + 1) if names is None else plain_name(names[number])
            _dot(draw, points[number], colours[number] if filled[number] else None, label, font, names is not None)
    if confidence is not None:
        _legend(draw, (10 * SMOOTHING, height), font)
    return canvas.resize((canvas.width // SMOOTHING, canvas.height // SMOOTHING), Image.Resampling.LANCZOS)


def draw_points(
    image: Image.Image,
    points: Float[np.ndarray, "keypoint 2"],
    confidence: Float[np.ndarray, " keypoint"],
    matched: Bool[np.ndarray, " keypoint"],
    names: Sequence[str],
    caption: str,
) -> Image.Image:
    """Draw named points on an image in its own pixels, above a strip with a caption and the legend of the colours.

    Points that are not `matched` are hollow.
    """
    unit = max(1, round(max(image.size) / UNIT))
    canvas = Image.new("RGB", (image.width, image.height + LEGEND * unit), "white")
    canvas.paste(image, (0, 0))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=11 * unit)
    for number in np.argsort(matched, kind="stable"):  # the hollow ones below
        colour = confidence_colour(confidence[number]) if matched[number] else None
        _dot(draw, points[number], colour, plain_name(names[number]), font, True, unit)
    draw.rectangle([0, image.height, *canvas.size], fill="white")  # over what a point at the border covers
    draw.text((10 * unit, image.height + LEGEND * unit // 2), caption, fill="black", font=font, anchor="lm")
    _legend(draw, (round(20 * unit + draw.textlength(caption, font)), image.height), font, unit)
    return canvas


def _line(draw: ImageDraw.ImageDraw, start: np.ndarray, end: np.ndarray, colour: Colour) -> None:
    ends = [tuple(start), tuple(end)]
    draw.line(ends, fill="black", width=3 * SMOOTHING)
    draw.line(ends, fill=colour, width=2 * SMOOTHING)


def plain_name(name: str) -> str:
    """Return a name as one short line that every font draws."""
    line = " ".join("".join(each if each.isprintable() else " " for each in name).split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _dot(
    draw: ImageDraw.ImageDraw,
    at: np.ndarray,
    colour: Colour | None,
    label: str,
    font: Font,
    is_name: bool,
    unit: int = SMOOTHING,
) -> None:
    """Draw a point: a disc of its colour, or a white ring where there is none. A number fits in it, a name does not."""
    x, y = at
    radius = (5 if is_name else 8) * unit
    box = [x - radius, y - radius, x + radius, y + radius]
    if colour is None:
        draw.ellipse(box, outline="black", width=3 * unit)
        inset = unit / 2
        draw.ellipse([box[0] + inset, box[1] + inset, box[2] - inset, box[3] - inset], outline="white", width=unit)
    else:
        draw.ellipse(box, fill=colour, outline="black", width=unit)
    if colour is None or is_name:
        gap = radius + 2 * unit  # inside the ring it would hide what the ring shows
        fits = x + gap + draw.textlength(label, font) <= draw.im.size[0]
        beside, anchor = (x + gap, "lm") if fits else (x - gap, "rm")
        draw.text((beside, y), label, fill="white", font=font, anchor=anchor, stroke_width=unit, stroke_fill="black")
    else:
        draw.text((x, y), label, fill="black", font=font, anchor="mm")


def _legend(draw: ImageDraw.ImageDraw, corner: tuple[int, int], font: Font, unit: int = SMOOTHING) -> None:
    left, middle, width = corner[0], corner[1] + LEGEND * unit // 2, 120 * unit
    draw.text((left, middle), "confidence 0", fill="black", font=font, anchor="lm")
    left += 72 * unit
    for column in range(width):
        draw.line(
            [(left + column, middle - 5 * unit), (left + column, middle + 5 * unit)],
            fill=confidence_colour(column / (width - 1)),
        )
    left, hint = left + width + 5 * unit, "1    hollow: below the threshold"
    fits = left + draw.textlength(hint, font) <= draw.im.size[0]
    draw.text((left, middle), hint if fits else "1", fill="black", font=font, anchor="lm")
