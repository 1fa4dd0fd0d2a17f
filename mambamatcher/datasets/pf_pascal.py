"""PF-PASCAL (Ham et al. 2018) with the pair lists of SCNet and NCNet.

`trn` and `val` rows name images whose keypoints are in `Annotations/<class>/<image>.mat`; `test` rows contain their own
keypoints. All coordinates are pixels of the published images (longest side 300).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isnan
from pathlib import Path

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.reading import first_existing, locate, read_csv, read_json, read_mat
from mambamatcher.datasets.records import AnnotatedImage, Pair, Point
from mambamatcher.errors import InputError
from mambamatcher.io.images import read_size

# fmt: off
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on
_LISTS = {
    "trn": ("trn_pairs.csv", "train_pairs.csv", "train_pairs_pf_pascal.csv"),
    "trn-noleak": ("trn_pairs_noleak.csv",),
    "val": ("val_pairs.csv", "val_pairs_pf_pascal.csv"),
    "test": ("test_pairs.csv", "test_pairs_pf_pascal.csv"),
}

ReadImage = Callable[[str, str], AnnotatedImage]


def read_pf_pascal(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read one split. In rows with flip 1 both images are mirrored."""
    folder = locate(root, "PF-PASCAL", "PF-dataset-PASCAL")
    listing = first_existing(*(folder / name for name in _LISTS[split]))
    # the official release has no names, so that file may be absent
    names = read_json(path) if (path := folder / "keypoint_names.json").exists() else {}
    image = cache(partial(_read_image, folder, names))

    pairs = []
    for number, row in enumerate(read_csv(listing), start=2):
        with faults.collect(), naming(listing):
            pairs.append(_pair(row, number, image))
    return pairs


def _pair(row: dict[str, str], number: int, image: ReadImage) -> Pair:
    if not 1 <= int(row["class"]) <= len(CLASSES):
        raise InputError(f"line {number}: there is no class {row['class']}")
    category = CLASSES[int(row["class"]) - 1]
    images = []
    for column, points in (("source_image", "A"), ("target_image", "B")):
        annotated = image(category, Path(row[column]).stem)
        if f"X{points}" in row:
            # a listed point is the n-th shared one, not the n-th of the class, so it has no name
            listed = [[float(value) for value in row[axis + points].split(";") if value] for axis in "XY"]
            annotated = replace(annotated, keypoints=_present(zip(*listed, strict=True), ()))
        images.append(annotated.mirrored() if int(row.get("flip", "0")) else annotated)
    source, target = images
    return Pair(f"{number:04d}-{source.path.stem}-{target.path.stem}:{category}", source, target, category)


def _read_image(folder: Path, names: dict[str, list[str]], category: str, stem: str) -> AnnotatedImage:
    annotation = folder / "Annotations" / category / f"{stem}.mat"
    keypoints, bbox = read_mat(annotation, "kps", "bbox")
    if keypoints.ndim != 2 or keypoints.shape[1] != 2 or bbox.size != 4:
        raise InputError(f"{annotation}: expected kps [N, 2] and bbox [1, 4], found {keypoints.shape} and {bbox.shape}")
    left, top, right, bottom = bbox.ravel().tolist()
    path = folder / "JPEGImages" / f"{stem}.jpg"
    present = _present(keypoints.tolist(), names.get(category, ()))
    return AnnotatedImage(path, read_size(path), category, present, (left, top, right, bottom))


def _present(points: Iterable[Sequence[float]], names: Sequence[str]) -> dict[str, Point]:
    """Return the rows without NaN. A keypoint without a name is named after its row."""
    return {
        names[row] if row < len(names) else str(row): (x, y)
        for row, (x, y) in enumerate(points)
        if not (isnan(x) or isnan(y))
    }
