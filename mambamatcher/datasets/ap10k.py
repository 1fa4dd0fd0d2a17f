"""AP-10K (Yu et al. 2021) as a correspondence benchmark (Zhang et al. 2024): animals with 17 keypoints each.

Two layouts are supported. GeoAware-SC's script makes ImageAnnotation/<family>/<species>/*.json, JPEGImages likewise
and PairAnnotation/<split>/*.json, the published pairs. The release of AP-10K itself has data/*.jpg and, in COCO format,
annotations/ap10k-<part>-split1.json; pairs are then sampled with a fixed seed and are not the published ones.
"""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.reading import locate, read_json
from mambamatcher.datasets.records import AnnotatedImage, Pair, Point
from mambamatcher.datasets.sampling import by_category, sample_pairs

# fmt: off
KEYPOINTS = (
    "left_eye", "right_eye", "nose", "neck", "root_of_tail",
    "left_shoulder", "left_elbow", "left_front_paw", "right_shoulder", "right_elbow", "right_front_paw",
    "left_hip", "left_knee", "left_back_paw", "right_hip", "right_knee", "right_back_paw",
)
# fmt: on
PAIRS = 5_000
_PARTS = {"trn": "train", "val": "val", "test": "test"}


def read_ap10k(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read one split. Pairs are of one species, of two (`-cross-species`), or of two families (`-cross-family`)."""
    folder = locate(root, "ap-10k", "AP-10K")
    part, _, kind = split.partition("-")
    prepared = folder / "PairAnnotation" / split.replace("-", "_")
    if prepared.is_dir():
        return _published_pairs(prepared, folder, kind, faults)
    return _sampled_pairs(folder, part, kind, faults)


def _published_pairs(listing: Path, folder: Path, kind: str, faults: Faults) -> list[Pair]:
    pairs = []
    for path in sorted(listing.glob("*.json")):
        with faults.collect(), naming(path):
            content = read_json(path)
            source = _prepared_image(folder, content["src_json_path"])
            target = _prepared_image(folder, content["trg_json_path"])
            pairs.append(Pair(path.stem, source, target, _category(source, kind)))
    return pairs


def _prepared_image(folder: Path, stored: str) -> AnnotatedImage:
    """Read an image by the path in its pair, which is relative to the folder where the pairs were prepared."""
    family, species, name = Path(stored.replace("\\", "/")).parts[-3:]
    path = folder / "ImageAnnotation" / family / species / name
    content = read_json(path)
    with naming(path):
        image = folder / "JPEGImages" / family / species / f"{Path(name).stem}.jpg"
        return _image(image, content, species)


def _category(image: AnnotatedImage, kind: str) -> str:
    """Return what results are grouped by: the species, the family, or `all` across families."""
    if kind == "cross-family":
        return "all"
    return image.path.parent.parent.name if kind == "cross-species" else image.category


def _sampled_pairs(folder: Path, part: str, kind: str, faults: Faults) -> list[Pair]:
    listing = folder / "annotations" / f"ap10k-{_PARTS[part]}-split1.json"
    content = read_json(listing)
    with naming(listing):
        categories = {category["id"]: category for category in content["categories"]}
        files = {image["id"]: image for image in content["images"]}
        animals = Counter(annotation["image_id"] for annotation in content["annotations"])
    images, families = [], {}
    for annotation in content["annotations"]:
        # in an image of several animals a keypoint has several correct positions
        if animals[annotation["image_id"]] > 1:
            continue
        with faults.collect(), naming(listing):
            file, category = files[annotation["image_id"]], categories[annotation["category_id"]]
            images.append(_image(folder / "data" / file["file_name"], {**file, **annotation}, category["name"]))
            families[category["name"]] = str(category["supercategory"])
    return _sample(images, families, kind)


def _sample(images: list[AnnotatedImage], families: dict[str, str], kind: str) -> list[Pair]:
    if kind == "cross-family":
        return sample_pairs({"all": images}, PAIRS, 0, lambda image: families[image.category])
    species = by_category(images)
    if kind == "cross-species":
        groups = {
            family: list(chain.from_iterable(species[name] for name in species if families[name] == family))
            for family in sorted(set(families.values()))
        }
        return sample_pairs(groups, PAIRS, 0, lambda image: image.category)
    return sample_pairs(species, PAIRS, 0, lambda image: image.path.name)


def _image(path: Path, content: dict[str, Any], category: str) -> AnnotatedImage:
    """Convert a COCO annotation: keypoints are x, y, visibility; the box is x, y, width, height."""
    flat = content["keypoints"]
    keypoints: dict[str, Point] = {
        name: (float(x), float(y))
        for name, x, y, visible in zip(KEYPOINTS, flat[0::3], flat[1::3], flat[2::3], strict=True)
        if visible > 0
    }
    left, top, width, height = map(float, content["bbox"])
    size = (content["width"], content["height"])
    return AnnotatedImage(path, size, category, keypoints, (left, top, left + width, top + height))
