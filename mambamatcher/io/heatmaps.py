"""Drawing where in the target each point may lie."""

from math import ceil

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont

WIDTH = 320  # of one panel
COLUMNS = 4
STRENGTH = 0.75  # of the colour over the image, at its brightest
_COLD, _HOT = np.array([20.0, 20.0, 60.0]), np.array([255.0, 80.0, 0.0])


def draw_heatmaps(
    target: Image.Image, heatmaps: Float[np.ndarray, "keypoint ht wt"], points: Float[np.ndarray, "keypoint 2"]
) -> Image.Image:
    """Draw a panel for each point: the target, bright and warm where the point may lie, and a ring at the match."""
    scale = WIDTH / target.width
    size = WIDTH, max(1, round(target.height * scale))
    columns = min(COLUMNS, len(heatmaps))
    sheet = Image.new("RGB", (columns * size[0], ceil(len(heatmaps) / columns) * size[1]), "white")
    panel = target.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)
    for index, (heatmap, point) in enumerate(zip(heatmaps, points, strict=True)):
        drawn = overlay_heatmap(panel, heatmap)
        _mark(drawn, point * scale, str(index + 1))
        sheet.paste(drawn, (index % columns * size[0], index // columns * size[1]))
    return sheet


def overlay_heatmap(image: Image.Image, heatmap: Float[np.ndarray, "ht wt"]) -> Image.Image:
    """Colour an image by a heat map of any grid, its highest value the brightest."""
    heat = Image.fromarray((heatmap / max(heatmap.max(), 1e-12)).astype(np.float32))
    # the square root keeps what is less likely visible beside the peak
    values = np.sqrt(np.clip(np.asarray(heat.resize(image.size, Image.Resampling.BICUBIC)), 0, 1))[..., None]
    pixels = np.asarray(image.convert("RGB"), dtype=np.float64)
    grey = pixels.mean(axis=2, keepdims=True)
    colour = _COLD + (_HOT - _COLD) * values
    mixed = (1 - STRENGTH * values) * (0.6 * grey + 0.4 * pixels) + STRENGTH * values * colour
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def _mark(image: Image.Image, at: np.ndarray, label: str) -> None:
    draw = ImageDraw.Draw(image)
    x, y = at
    for radius, colour in ((8, "black"), (7, "white")):
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], outline=colour, width=2)
    draw.text((6, 4), label, fill="white", font=ImageFont.load_default(size=18), stroke_width=2, stroke_fill="black")
