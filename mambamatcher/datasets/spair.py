"""SPair-71k (Min et al. 2019): one JSON file per pair, listed in `Layout/{large,small}/{trn,val,test}.txt`.

Official folders: JPEGImages/<category>, PairAnnotation/<split>, Layout. File names contain a colon, which some file
systems do not allow; the replacements of common unpacking programs are recognised.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.reading import first_existing, locate, read_json, read_text
from mambamatcher.datasets.records import AnnotatedImage, Pair, Point
from mambamatcher.errors import InputError

# the replacements of 7-Zip and most others, of URL-escaped archives, and of Windows shares under Linux
_COLONS = (":", "_", "%3A", "\uf03a")
_GRADES = {
    "viewpoint": "viewpoint_variation",
    "scale": "scale_variation",
    "truncation": "truncation",
    "occlusion": "occlusion",
    "mirror": "mirror",
}


def read_spair(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read one split. `val` is the large layout and `val-small` the small one."""
    folder = locate(root, "SPair-71k")
    part, _, layout = split.partition("-")
    listing = folder / "Layout" / (layout or "large") / f"{part}.txt"

    pairs = []
    for name in read_text(listing).split():
        with faults.collect():
            path = first_existing(*annotation_paths(folder / "PairAnnotation" / part, name))
            pairs.append(parse_pair(path, folder / "JPEGImages"))
    return pairs


def annotation_paths(folder: Path, name: str) -> list[Path]:
    """Return the possible paths of an annotation, the official one first."""
    return [folder / f"{name.replace(':', colon)}.json" for colon in _COLONS]


def parse_pair(path: Path, images: Path) -> Pair:
    """Read one pair annotation. Grades and keypoint ids may be null."""
    content = read_json(path)
    with naming(path):
        source_points, target_points = content["src_kps"], content["trg_kps"]
        names = content.get("kps_ids") or [str(number) for number in range(len(source_points))]
        if not len(names) == len(source_points) == len(target_points):
            raise InputError("the lists of keypoints differ in length")
        folder = images / content["category"]
        return Pair(
            name=content["filename"],
            source=_image(content, "src", folder, _present(names, source_points)),
            target=_image(content, "trg", folder, _present(names, target_points)),
            category=content["category"],
            variation={grade: int(content[key]) for grade, key in _GRADES.items() if content.get(key) is not None},
        )


def _image(content: Mapping[str, Any], side: str, folder: Path, keypoints: dict[str, Point]) -> AnnotatedImage:
    width, height = content[f"{side}_imsize"][:2]
    bbox = content.get(f"{side}_bndbox")
    if bbox is not None:
        left, top, right, bottom = map(float, bbox)
        bbox = (left, top, right, bottom)
    return AnnotatedImage(folder / content[f"{side}_imname"], (width, height), content["category"], keypoints, bbox)


def _present(names: Sequence[Any], points: Sequence[Any]) -> dict[str, Point]:
    return {
        str(name): (float(point[0]), float(point[1]))
        for name, point in zip(names, points, strict=True)
        if point is not None
    }
