"""Draw the pictures of the documentation with the model that comes with the package: `python docs/make_pictures.py`."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from torch import Tensor

import mambamatcher
from mambamatcher import Matcher
from mambamatcher.datasets.synthetic import SyntheticPairs
from mambamatcher.jobs.source import read_source
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.geometry import grid_centres, unit_to_pixels
from mambamatcher.tools.edit import carry_mask, object_mask, swap_texture
from mambamatcher.tools.flow import dense_flow
from mambamatcher.tools.propagate import REVIEW, propagate, read_references

SAMPLE = Path(mambamatcher.__file__).parent / "assets" / "sample"
OUT = Path(__file__).parent / "pictures"
CURVES = Path(__file__).parents[1] / "benchmarks" / "results" / "lite" / "curves.csv"
SHOWN = 0  # the point that is followed through the steps: the nose
HEAD = (305, 95, 445, 195)  # the box of an ellipse around the source's head
LINES = 150
mpl.use("agg")


def main() -> None:
    """Draw them all."""
    matcher = Matcher.from_pretrained()
    marked = json.loads((SAMPLE / "points.json").read_text())
    points = np.array(marked["points"])
    pair = matcher.prepare(SAMPLE / "source.png", SAMPLE / "target.png")
    result = pair.match(points)
    result.save(OUT / "matches.png", overwrite=True)
    pair.match(points[[0, 2, 7, 8]]).save_heatmaps(OUT / "heatmaps.png", overwrite=True)
    pair.match(matcher.suggest_points(SAMPLE / "source.png")).save(OUT / "suggested.png", overwrite=True)
    draw_steps(matcher, pair, points[SHOWN])
    draw_carried(matcher, pair)
    draw_review(matcher)
    draw_training()


def draw_steps(matcher: Matcher, pair: PreparedPair, point: Float[np.ndarray, "2"]) -> None:
    """Follow one point through the model."""
    found = pair.match(point[None]).points[0]
    axes = _axes(2)
    for axis, picture, title in zip(axes, (pair.source, pair.target), ("source", "target: where is it?"), strict=True):
        axis.imshow(picture)
        axis.set_title(title)
    axes[0].plot(*point, "o", color="#ff3b30", markeredgecolor="black", markersize=10)
    _write(axes, "how-1-pictures.png")

    with torch.inference_mode():
        source, target = (matcher.describe(picture) for picture in (pair.source, pair.target))
        scores = correlation_map(source, target)[0]
    levels = [0, len(scores) // 2, len(scores) - 1]
    draw_features(source[0], target[0], levels)

    rows, columns = scores.shape[1:3]
    row, column = int(point[1] / pair.source.height * rows), int(point[0] / pair.source.width * columns)
    axes = _axes(3)
    for axis, level in zip(axes, levels, strict=True):
        _over(axis, pair.target, scores[level, row, column])
        axis.set_title(f"level {level + 1} of {len(scores)}")
    _write(axes, "how-3-correlation.png")

    draw_sorted(pair, scores[-1])

    axes = _axes(2)
    _over(axes[0], pair.target, scores[:, row, column].mean(dim=0))
    axes[0].set_title("mean of the levels")
    _over(axes[1], pair.target, pair.refined[0, row, column])
    axes[1].plot(*found, "o", color="none", markeredgecolor="#ff3b30", markersize=14, markeredgewidth=2)
    axes[1].set_title("refined; the ring is the match")
    _write(axes, "how-5-refined.png")


def draw_features(
    source: Float[Tensor, "level channel h w"], target: Float[Tensor, "level channel h w"], levels: list[int]
) -> None:
    """Show some levels of both pictures by their first three principal components."""
    axes = _axes(6, rows=2)
    for place, level in enumerate(levels):
        cells = torch.cat([each[level].flatten(1) for each in (source, target)], dim=1).T.double()
        cells = torch.nn.functional.normalize(cells, dim=1)
        centred = cells - cells.mean(dim=0)
        _, _, directions = torch.linalg.svd(centred, full_matrices=False)
        colours = centred @ directions[:3].T
        low, high = colours.quantile(0.02, dim=0), colours.quantile(0.98, dim=0)
        shades = ((colours - low) / (high - low)).clamp(0, 1)
        for row, part in enumerate(shades.chunk(2)):
            axis = axes[3 * row + place]
            axis.imshow(part.unflatten(0, source.shape[2:]).numpy())
            if row == 0:
                axis.set_title(f"level {level + 1} of {len(source)}")
    _write(axes, "how-2-features.png")


def draw_sorted(pair: PreparedPair, scores: Float[Tensor, "hs ws ht wt"]) -> None:
    """Show the order in which a similarity-aware scan reads the positions."""
    ordered, order = scores.flatten().sort(descending=True, stable=True)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    step = max(1, len(ordered) // 2000)
    left.plot(np.arange(0, len(ordered), step), ordered[::step].numpy(), color="#0072b2")
    left.set_xlabel("place in the sequence")
    left.set_ylabel("similarity")
    left.spines[["top", "right"]].set_visible(False)
    grids = scores.shape[:2], scores.shape[2:]
    first = np.unravel_index(order[:LINES].numpy(), tuple(scores.shape))
    ends = []
    for picture, grid, (row, column) in zip((pair.source, pair.target), grids, (first[:2], first[2:]), strict=True):
        centres = unit_to_pixels(grid_centres((grid[0], grid[1])), picture.size).numpy()
        ends.append(centres[row * grid[1] + column])
    both = Image.new("RGB", (pair.source.width + pair.target.width, pair.source.height))
    both.paste(pair.source, (0, 0))
    both.paste(pair.target, (pair.source.width, 0))
    right.imshow(both)
    for start, end in zip(*ends, strict=True):
        right.plot([start[0], end[0] + pair.source.width], [start[1], end[1]], color="#ffe14d", linewidth=0.7)
    right.set_axis_off()
    figure.savefig(OUT / "how-4-sorted.png", dpi=110)


def draw_carried(matcher: Matcher, pair: PreparedPair) -> None:
    """Carry a mask of the head and the coat of the source."""
    flow = dense_flow(pair)
    mask = Image.new("L", pair.source.size)
    ImageDraw.Draw(mask).ellipse(HEAD, fill=255)
    carried = carry_mask(flow, mask, pair.target.size)
    objects = [object_mask(matcher.foreground(each), each.size) for each in (pair.source, pair.target)]
    swapped, _ = swap_texture(flow, pair.source, pair.target, *objects)
    axes = _axes(3)
    tinted = [_tinted(picture, layer) for picture, layer in ((pair.source, mask), (pair.target, carried))]
    titles = ("the mask", "carried", "the coat, swapped")
    for axis, picture, title in zip(axes, (*tinted, swapped), titles, strict=True):
        axis.imshow(picture)
        axis.set_title(title)
    _write(axes, "carried.png")


def draw_review(matcher: Matcher) -> None:
    """Propagate the sample's points to six rendered dogs, and photograph the page to review them by."""
    chromium = shutil.which("chromium") or sys.exit("review.png needs chromium")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        for number, pair in enumerate(SyntheticPairs(6, seed=3, categories=["dog"])):
            Image.fromarray(pair.target.image).save(folder / "photos" / f"{number}.jpg")
        references = read_references(matcher, [SAMPLE / "source.png"], SAMPLE / "points.json")
        propagate(matcher, references, read_source(folder / "photos"), folder / "out")
        options = "--headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars"
        shot = [f"--screenshot={folder / 'page.png'}", "--window-size=900,900", (folder / "out" / REVIEW).as_uri()]
        subprocess.run([chromium, *options.split(), *shot], check=True, capture_output=True)
        Image.open(folder / "page.png").convert("RGB").save(OUT / "review.png", optimize=True)


def draw_training() -> None:
    """Show what the embedded model's runs reached on 100 selection pairs, round by round."""
    runs: dict[str, list[tuple[int, float]]] = {}
    with CURVES.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["run"], []).append((int(row["step"]), float(row["validation_pck"])))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axis = figure.subplots()
    begun = 0
    for name, points in runs.items():
        steps, values = zip(*points, strict=True)
        axis.plot([begun + step for step in steps], values, "o-", label=name)
        begun += steps[-1]
    axis.set_xlabel("steps of two groups of eight pictures")
    axis.set_ylabel("PCK@0.10 per image, box (%)")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "lite-training.png", dpi=110)


def _axes(count: int, rows: int = 1) -> list[Axes]:
    columns = count // rows
    figure = Figure(figsize=(3 * columns, 3.4 * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for axis in axes:
        axis.set_axis_off()
    return axes


def _write(axes: list[Axes], name: str) -> None:
    axes[0].figure.savefig(OUT / name, dpi=100)


def _over(axis: Axes, picture: Image.Image, scores: Float[Tensor, "h w"]) -> None:
    """Lay scores, from their middle to their highest, over a greyed picture."""
    axis.imshow(picture.convert("L"), cmap="gray", vmin=-60, vmax=270)
    values = scores.numpy()
    middle = float(np.median(values))
    shares = ((values - middle) / (values.max() - middle)).clip(0, 1)
    extent = (0, picture.width, picture.height, 0)
    axis.imshow(shares, cmap="plasma", extent=extent, alpha=0.85 * shares, vmin=0, vmax=1)


def _tinted(picture: Image.Image, mask: Image.Image) -> Image.Image:
    return Image.composite(Image.new("RGB", picture.size, "#ff3b30"), picture, mask.point(lambda value: value * 0.55))


if __name__ == "__main__":
    main()
