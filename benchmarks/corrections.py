"""What corrections are worth: PCK of the remaining images after some were corrected, chosen by us or at random.

    python -m benchmarks.corrections default lite --root data --answers /tmp/answers --save benchmarks/results \
        --picture docs/pictures/corrections.png

The images are held-out photos of VOC (the split `selection`), of the five categories that have the most. An image is
the reference, then others are corrected one after the other, and a correction is the ground truth. Every image is
matched with every other once; the rounds are then put together from these answers as `propagate` does it. PCK counts
a point as right within a tenth of the longer side of the object's box.
"""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage
from mambamatcher.datasets.voc_keypoints import FOLDERS, held_out, photo, read_images
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.saved import SHIPPED
from mambamatcher.tools.references import combine_answers
from mambamatcher.tools.rounds import describe_image

CATEGORIES, IMAGES = 5, 30
STARTS = 6  # references to start from: the images with the most keypoints
SEEDS = 10  # of correcting at random, for each start
CORRECTIONS = (0, 1, 3, 5, 10)
ALPHA = 0.1
WAYS = ("gain", "doubt", "random")


@dataclass(frozen=True)
class Answers:
    """All images of a category matched with each other."""

    points: np.ndarray  # [source, target, name, 2]: pixels of the target; NaN where the source does not show it
    confidence: np.ndarray  # [source, target, name]
    truth: np.ndarray  # [image, name, 2]: NaN where it is not shown
    descriptors: np.ndarray  # [image, entry]
    box: np.ndarray  # [image]: longer side of the object's box
    sizes: np.ndarray  # [image, 2]


def held_out_images(root: Path) -> dict[str, list[AnnotatedImage]]:
    """Return held-out images of the largest categories, those of one clear object first."""
    faults = Faults()
    found = [image for name in FOLDERS for image in read_images(root / name, faults)]
    faults.settle(skip=False)
    kept = [image for image in found if held_out(photo(image.path)) and image.keypoints]
    largest = Counter(image.category for image in kept).most_common(CATEGORIES)
    return {name: [image for image in kept if image.category == name][:IMAGES] for name, _ in largest}


def match_all(matcher: Matcher, images: list[AnnotatedImage]) -> Answers:
    """Match every image with every other."""
    names = sorted({name for image in images for name in image.keypoints})
    truth = np.full((len(images), len(names), 2), np.nan)
    for row, image in enumerate(images):
        for name, place in image.keypoints.items():
            truth[row, names.index(name)] = place
    loaded = [matcher.read(image.path) for image in images]
    descriptors = np.stack([describe_image(matcher.encode(each)) for each in loaded])
    points = np.full((len(images), *truth.shape), np.nan)
    confidence = np.zeros(points.shape[:3])
    for source, image in enumerate(loaded):
        asked = np.flatnonzero(np.isfinite(truth[source, :, 0]))
        for target, other in enumerate(loaded):
            if source != target:
                result = matcher.match(image, other, truth[source, asked])
                points[source, target, asked], confidence[source, target, asked] = result.points, result.confidence
    sides = [max(np.subtract(image.bbox[2:], image.bbox[:2])) for image in images if image.bbox is not None]
    return Answers(points, confidence, truth, descriptors, np.array(sides), np.array([i.size for i in images]))


def combined(answers: Answers, references: list[int], target: int, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the references agree on for a target: points and confidences of these names."""
    points, confidence = [], []
    for name in names:
        showing = [each for each in references if np.isfinite(answers.truth[each, name, 0])]
        size = (int(answers.sizes[target, 0]), int(answers.sizes[target, 1]))
        point, sure = combine_answers(
            answers.points[showing, target, name], answers.confidence[showing, target, name], size
        )
        points.append(point)
        confidence.append(sure)
    return np.array(points), np.array(confidence)


def simulate(answers: Answers, start: int, way: str, rng: np.random.Generator) -> dict[int, float]:
    """Correct images one after the other; return the PCK of the remaining ones after some numbers of corrections."""
    names = np.flatnonzero(np.isfinite(answers.truth[start, :, 0]))
    references, found = [start], {}
    for done in range(max(CORRECTIONS) + 1):
        left = [image for image in range(len(answers.truth)) if image not in references]
        guesses = {image: combined(answers, references, image, names) for image in left}
        if done in CORRECTIONS:
            right = [
                float(np.linalg.norm(guess - answers.truth[image, name]) <= ALPHA * answers.box[image])
                for image in left
                for name, guess in zip(names, guesses[image][0], strict=True)
                if np.isfinite(answers.truth[image, name, 0])
            ]
            found[done] = 100 * float(np.mean(right))
        doubt = np.array([1 - guesses[image][1].mean() for image in left])
        distance = 1 - (answers.descriptors[left] @ answers.descriptors[references].T).max(axis=1)
        chosen = {"gain": doubt * distance, "doubt": doubt, "random": rng.random(len(left))}[way]
        references.append(left[int(np.argmax(chosen))])
    return found


def summarise(answers: dict[str, Answers]) -> dict:
    """Return the mean PCK of each way over categories and starts, and the gap to random, with 95 % intervals."""
    curves: dict[str, list] = {way: [] for way in WAYS}  # [category and start][corrections]
    categories = {}
    for category, each in answers.items():
        shown = np.isfinite(each.truth[..., 0]).sum(axis=1)
        starts = np.argsort(-shown, kind="stable")[:STARTS]
        own: dict[str, list] = {way: [] for way in WAYS}
        for start in starts:
            for way in WAYS:
                runs = [
                    list(simulate(each, int(start), way, np.random.default_rng(seed)).values())
                    for seed in range(SEEDS if way == "random" else 1)
                ]
                own[way].append(np.mean(runs, axis=0))
        categories[category] = {way: [round(float(v), 1) for v in np.mean(own[way], axis=0)] for way in WAYS}
        for way in WAYS:
            curves[way] += own[way]
    tables = {way: np.array(curves[way]) for way in WAYS}
    found: dict = {"corrections": list(CORRECTIONS), "categories": categories, "images": {}, "pck": {}, "gap": {}}
    found["images"] = {category: len(each.truth) for category, each in answers.items()}
    for way in WAYS:
        found["pck"][way] = _with_interval(tables[way], len(answers))
        if way != "random":
            found["gap"][f"{way} minus random"] = _with_interval(tables[way] - tables["random"], len(answers))
    return found


def _with_interval(values: np.ndarray, categories: int) -> list[dict[str, float]]:
    """Bootstrap over the starts of each category, which another user would choose otherwise."""
    rng = np.random.default_rng(0)
    groups = values.reshape(categories, -1, values.shape[1])
    drawn = rng.integers(groups.shape[1], size=(2000, *groups.shape[:2]))
    means = np.take_along_axis(groups[None], drawn[..., None], axis=2).mean(axis=(1, 2))
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return [
        {"mean": round(float(m), 1), "low": round(float(a), 1), "high": round(float(b), 1)}
        for m, a, b in zip(values.mean(axis=0), low, high, strict=True)
    ]


def draw(results: dict[str, dict], path: Path) -> None:
    """Draw PCK over corrections, a panel for each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(4.6 * len(results), 3.6), squeeze=False, sharey=True)
    for axis, (model, found) in zip(axes[0], results.items(), strict=True):
        for way, colour, label in (("gain", "#0072b2", "the image we propose"), ("random", "#d55e00", "at random")):
            rows = found["pck"][way]
            axis.plot(CORRECTIONS, [row["mean"] for row in rows], "o-", color=colour, label=label)
            low, high = ([row[end] for row in rows] for end in ("low", "high"))
            axis.fill_between(CORRECTIONS, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.set(title=f"model {model}", xlabel="corrected images", xticks=CORRECTIONS)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("PCK@0.1 of the remaining images, %")
    axes[0][0].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Match, or read the answers of an earlier call; simulate, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=SHIPPED)
    parser.add_argument("--root", type=Path, required=True, help="folder of the benchmarks")
    parser.add_argument("--answers", type=Path, required=True, help="folder for the answers of all pairs")
    parser.add_argument("--save", type=Path, help="folder for corrections.json")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    arguments.answers.mkdir(parents=True, exist_ok=True)
    results = {}
    for model in arguments.models:
        matcher, answers = None, {}
        for category, images in held_out_images(arguments.root).items():
            path = arguments.answers / f"{model}-{category}.npz"
            if not path.exists():
                matcher = matcher or Matcher.from_pretrained(SHIPPED[model])
                np.savez(path, **vars(match_all(matcher, images)))
                matcher.clear_cache()
                print(f"{model}: matched {len(images)} images of {category}", flush=True)
            with np.load(path) as file:
                answers[category] = Answers(**file)
        results[model] = summarise(answers)
    text = json.dumps({"circumstances": asdict(circumstances()), "models": results}, indent=1)
    print(text)
    if arguments.save is not None:
        (arguments.save / "corrections.json").write_text(text + "\n")
    if arguments.picture is not None:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
