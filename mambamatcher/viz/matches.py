"""Drawing two pictures side by side with the points that correspond."""

import colorsys

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 480  # of the drawn pictures
GAP = 12
SMOOTHING = 2  # drawn this many times larger, then reduced: Pillow draws without anti-aliasing
Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def distinct_colours(count: int) -> list[Colour]:
    """Return colours spread around the colour circle, neighbours far apart."""
    golden = 0.61803
    hues = ((0.02 + i * golden) % 1.0 for i in range(count))
    return [tuple(round(255 * c) for c in colorsys.hsv_to_rgb(h, 0.85, 1.0)) for h in hues]  # type: ignore[misc]


def draw_matches(
    source: Image.Image,
    target: Image.Image,
    source_points: Float[np.ndarray, "keypoint 2"],
    target_points: Float[np.ndarray, "keypoint 2"],
) -> Image.Image:
    """Draw numbered points on both pictures, joined by lines of the same colour."""
    height = HEIGHT * SMOOTHING
    panels = [image.resize((max(1, round(image.width * height / image.height)), height)) for image in (source, target)]
    offsets = (0, panels[0].width + GAP * SMOOTHING)
    canvas = Image.new("RGB", (offsets[1] + panels[1].width, height), "white")
    ends = []
    for panel, offset, image, points in zip(
        panels, offsets, (source, target), (source_points, target_points), strict=True
    ):
        canvas.paste(panel, (offset, 0))
        ends.append(points * (height / image.height) + np.array([offset, 0.0]))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=11 * SMOOTHING)
    colours = distinct_colours(len(source_points))
    for start, end, colour in zip(*ends, colours, strict=True):
        _line(draw, start, end, colour)
    for points in ends:
        for number, (point, colour) in enumerate(zip(points, colours, strict=True)):
            _dot(draw, point, colour, str(number + 1), font)
    return canvas.resize((canvas.width // SMOOTHING, canvas.height // SMOOTHING), Image.Resampling.LANCZOS)


def _line(draw: ImageDraw.ImageDraw, start: np.ndarray, end: np.ndarray, colour: Colour) -> None:
    ends = [tuple(start), tuple(end)]
    draw.line(ends, fill="black", width=3 * SMOOTHING)
    draw.line(ends, fill=colour, width=2 * SMOOTHING)


def _dot(draw: ImageDraw.ImageDraw, at: np.ndarray, colour: Colour, label: str, font: Font) -> None:
    x, y = at
    radius = 8 * SMOOTHING
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour, outline="black", width=SMOOTHING)
    draw.text((x, y), label, fill="black", font=font, anchor="mm")
