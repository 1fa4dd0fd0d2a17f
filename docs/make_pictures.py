"""Draw the documentation's figures with the shipped model and photos: `python docs/make_pictures.py`."""

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
from mambamatcher.io.heatmaps import draw_heatmaps
from mambamatcher.io.video_writing import write_video
from mambamatcher.io.videos import read_frames
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.geometry import grid_centres, unit_to_pixels

PHOTOS = Path(mambamatcher.__file__).parent / "assets" / "photos"
CAT, RACCOON = PHOTOS / "cat.jpg", PHOTOS / "raccoon.jpg"
HOPPER, COLLINS = PHOTOS / "grace-hopper.jpg", PHOTOS / "eileen-collins.jpg"
OUT = Path(__file__).parent / "pictures"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
FACE = (100, 70, 360, 290)  # the box of an ellipse around the cat's face, as in tutorials/own-images.md
LINES = 150
JPEG = {"quality": 88, "subsampling": 0, "optimize": True}
mpl.use("agg")


def main() -> None:
    """Draw them all."""
    matcher = Matcher.from_pretrained()
    points = read_points(CAT)
    pair = matcher.prepare(CAT, RACCOON)
    _save(pair.match(list(points.values())).draw(), "matches.jpg")
    _save(pair.match(matcher.suggest_points(CAT)).draw(), "suggested.jpg")
    _save(matcher.match(HOPPER, COLLINS, list(read_points(HOPPER).values())).draw(), "portraits.jpg")
    shown = pair.match([points[name] for name in ("left eye", "nose", "mouth", "left ear")])
    _save(draw_heatmaps(shown.target, shown.heatmaps, shown.points), "heatmaps.jpg")
    lite = Matcher.from_pretrained("lite")  # it keeps its levels apart, as the paper's model does
    draw_steps(lite, lite.prepare(CAT, RACCOON), np.array(points["nose"]))
    draw_transferred()
    draw_review()
    draw_video()
    draw_training_of_lite()
    draw_training_of_default()


def read_points(photo: Path) -> dict[str, tuple[float, float]]:
    """Return the named points that come with a photo."""
    content = json.loads(photo.with_suffix(".json").read_text(encoding="utf-8"))
    return dict(zip(content["names"], content["points"], strict=True))


def run(*words: str | Path) -> None:
    """Run a command of the package, as the pages show it."""
    subprocess.run([sys.executable, "-m", "mambamatcher", *map(str, words)], check=True)


def draw_steps(matcher: Matcher, pair: PreparedPair, point: Float[np.ndarray, "2"]) -> None:
    """Follow one point through the model."""
    found = pair.match(point[None]).points[0]
    axes = _axes(2)
    for axis, image, title in zip(axes, (pair.source, pair.target), ("source", "target: where is it?"), strict=True):
        axis.imshow(image)
        axis.set_title(title)
    axes[0].plot(*point, "o", color="#ff3b30", markeredgecolor="black", markersize=10)
    _write(axes, "how-1-images.jpg")

    with torch.inference_mode():
        source, target = (torch.from_numpy(matcher.encode(image))[None] for image in (pair.source, pair.target))
        scores = correlation_map(source, target)[0]
    levels = [0, len(scores) // 2, len(scores) - 1]
    draw_features(source[0], target[0], levels)

    rows, columns = scores.shape[1:3]
    row, column = int(point[1] / pair.source.height * rows), int(point[0] / pair.source.width * columns)
    axes = _axes(3)
    for axis, level in zip(axes, levels, strict=True):
        _over(axis, pair.target, scores[level, row, column])
        axis.set_title(f"level {level + 1} of {len(scores)}")
    _write(axes, "how-3-correlation.jpg")

    draw_sorted(pair, scores[-1])

    axes = _axes(2)
    _over(axes[0], pair.target, scores[:, row, column].mean(dim=0))
    axes[0].set_title("mean of the levels")
    _over(axes[1], pair.target, pair.refined[row, column])
    axes[1].plot(*found, "o", color="none", markeredgecolor="#ff3b30", markersize=14, markeredgewidth=2)
    axes[1].set_title("refined; the ring is the match")
    _write(axes, "how-5-refined.jpg")


def draw_features(
    source: Float[Tensor, "level channel h w"], target: Float[Tensor, "level channel h w"], levels: list[int]
) -> None:
    """Show some levels of both images by their first three principal components."""
    axes = _axes(6, rows=2)
    for place, level in enumerate(levels):
        cells = torch.cat([each[level].flatten(1) for each in (source, target)], dim=1).T.double()
        cells = torch.nn.functional.normalize(cells, dim=1)
        centred = cells - cells.mean(dim=0)
        _, _, directions = torch.linalg.svd(centred, full_matrices=False)
        colours = centred @ directions[:3].T
        low, high = colours.quantile(0.02, dim=0), colours.quantile(0.98, dim=0)
        shades = ((colours - low) / (high - low)).clamp(0, 1)
        for row, (shade, photo) in enumerate(zip(shades.chunk(2), ("cat", "raccoon"), strict=True)):
            axis = axes[3 * row + place]
            axis.imshow(shade.unflatten(0, source.shape[2:]).numpy())
            axis.set_title(f"{photo}, level {level + 1} of {len(source)}")
    _write(axes, "how-2-features.png")


def draw_sorted(pair: PreparedPair, scores: Float[Tensor, "hs ws ht wt"]) -> None:
    """Show the order in which a similarity-aware scan reads the positions."""
    ordered, order = scores.flatten().sort(descending=True, stable=True)
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    step = max(1, len(ordered) // 2000)
    left.plot(np.arange(0, len(ordered), step), ordered[::step].numpy(), color="#0072b2")
    left.set_xlabel("position in the sequence")
    left.set_ylabel("similarity")
    left.spines[["top", "right"]].set_visible(False)
    first = np.unravel_index(order[:LINES].numpy(), tuple(scores.shape))
    height = max(pair.source.height, pair.target.height)
    shift, ends = 0.0, []
    for image, grid, (row, column) in zip(
        (pair.source, pair.target), (scores.shape[:2], scores.shape[2:]), (first[:2], first[2:]), strict=True
    ):
        width = image.width * height / image.height
        centres = unit_to_pixels(grid_centres((grid[0], grid[1])), (width, height)).numpy()
        ends.append(centres[row * grid[1] + column] + (shift, 0))
        right.imshow(image, extent=(shift, shift + width, height, 0))
        shift += width
    right.set(xlim=(0, shift), ylim=(height, 0))
    for start, end in zip(*ends, strict=True):
        right.plot(*zip(start, end, strict=True), color="#ffe14d", linewidth=0.7)
    right.set_axis_off()
    figure.savefig(OUT / "how-4-sorted.jpg", dpi=110, pil_kwargs=JPEG)


def draw_transferred() -> None:
    """Transfer a mask of the cat's face and its coat to the raccoon, with the commands of the tutorial."""
    with TemporaryDirectory() as name:
        face, found, swapped = (Path(name) / file for file in ("face.png", "found.png", "swapped.png"))
        mask = Image.new("L", Image.open(CAT).size)
        ImageDraw.Draw(mask).ellipse(FACE, fill=255)
        mask.save(face)
        run("warp", CAT, RACCOON, "--mask", face, "--out", found)
        run("swap", CAT, RACCOON, "--out", swapped)
        images = _tinted(Image.open(CAT), mask), _tinted(Image.open(RACCOON), Image.open(found)), Image.open(swapped)
        axes = _axes(3)
        for axis, image, title in zip(axes, images, ("mask", "transferred mask", "coat, swapped"), strict=True):
            axis.imshow(image)
            axis.set_title(title)
        _write(axes, "transferred.jpg")


def draw_review() -> None:
    """Propagate the cat's points to the other photos and take a screenshot of the review page."""
    chromium = shutil.which("chromium") or sys.exit("review.jpg needs chromium")
    with TemporaryDirectory() as name:
        photos, out, shot = (Path(name) / file for file in ("photos", "out", "page.png"))
        photos.mkdir()
        for photo in (RACCOON, HOPPER, COLLINS):
            shutil.copy(photo, photos)
        run("propagate", CAT, photos, "--points-file", CAT.with_suffix(".json"), "--out", out)
        options = "--headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars"
        command = [chromium, *options.split(), f"--screenshot={shot}", "--window-size=900,840"]
        subprocess.run([*command, (out / "review.html").as_uri()], check=True, capture_output=True)
        _save(Image.open(shot).convert("RGB"), "review.jpg")


def draw_video() -> None:
    """Propagate the cat's points to a video that pans over the raccoon, as in tutorials/videos.md."""
    with TemporaryDirectory() as name:
        clip, out = Path(name) / "clip.mp4", Path(name) / "out"
        photo = Image.open(RACCOON).convert("RGB").resize((480, 360))
        corners = [(5 * number, 2 * number) for number in range(16)]
        frames = [photo.crop((x, y, x + 400, y + 320)) for x, y in corners]
        write_video(clip, [(frame, number / 25) for number, frame in enumerate(frames)], 25.0)
        run("propagate", CAT, clip, "--points-file", CAT.with_suffix(".json"), "--out", out, "--smooth")
        shutil.copy(out / "paths.png", OUT / "paths.png")
        ((_, frame),) = read_frames(out / "overlay.mp4", {6})
        _save(frame, "overlay.jpg")


def draw_training_of_lite() -> None:
    """Plot the validation PCK of the runs of `lite` over their steps."""
    runs: dict[str, list[tuple[int, float]]] = {}
    with (RESULTS / "lite" / "curves.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["run"], []).append((int(row["step"]), float(row["validation_pck"])))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axis = figure.subplots()
    begun = 0
    for name, points in runs.items():
        steps, values = zip(*points, strict=True)
        axis.plot([begun + step for step in steps], values, "o-", label=name)
        begun += steps[-1]
    axis.set_xlabel("steps of two groups of eight images")
    axis.set_ylabel("PCK@0.10 per image, box (%)")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "lite-training.png", dpi=110)


def draw_training_of_default() -> None:
    """Plot the validation PCK over the images seen, of the runs that the shipped weights come from."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axis = figure.subplots()
    first, continued, last = 15_000, 19_800, 28_440  # images that the weights had seen before each branch
    for name, before, label in (
        ("curve.csv", 0, "constant rate"),
        ("curve-branch.csv", first, "continued"),
        ("curve-final.csv", continued, "average of two branches, rate decayed"),
        ("curve-groups-of-8.csv", last, "groups of eight, rate decayed again"),
    ):
        with (RESULTS / "vit-s" / name).open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["validation_pck"]]
        images = [before + int(row["images"]) for row in rows]
        axis.plot(images, [float(row["validation_pck"]) for row in rows], "o-", label=label)
    axis.set_xlabel("images seen")
    axis.set_ylabel("PCK@0.10 per image, box (%)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(OUT / "vit-s-training.png", dpi=110)


def _axes(count: int, rows: int = 1) -> list[Axes]:
    columns = count // rows
    figure = Figure(figsize=(3.6 * columns, 3.0 * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for axis in axes:
        axis.set_axis_off()
    return axes


def _write(axes: list[Axes], name: str) -> None:
    options = {"pil_kwargs": JPEG} if name.endswith(".jpg") else {}
    axes[0].figure.savefig(OUT / name, dpi=100, **options)


def _save(image: Image.Image, name: str) -> None:
    image.save(OUT / name, **JPEG)


def _over(axis: Axes, image: Image.Image, scores: Float[Tensor, "h w"]) -> None:
    """Overlay scores, from their median to their maximum, on a grey image."""
    axis.imshow(image.convert("L"), cmap="gray", vmin=-60, vmax=270)
    values = np.asarray(scores)
    middle = float(np.median(values))
    shares = ((values - middle) / (values.max() - middle)).clip(0, 1)
    extent = (0, image.width, image.height, 0)
    axis.imshow(shares, cmap="plasma", extent=extent, alpha=0.85 * shares, vmin=0, vmax=1)


def _tinted(image: Image.Image, mask: Image.Image) -> Image.Image:
    return Image.composite(Image.new("RGB", image.size, "#ff3b30"), image, mask.point(lambda value: value * 0.55))


if __name__ == "__main__":
    main()
