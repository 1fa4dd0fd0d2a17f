"""A finished run of `propagate`, opened to correct its points. Every correction is saved at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from mambamatcher.datasets.faults import check_kind, naming
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json
from mambamatcher.io.frame_selection import FrameSelection
from mambamatcher.io.images import ImageLike, load_image, require_file
from mambamatcher.io.points import PointSet, check_points, read_annotations
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.source import read_source, read_video
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.corrections import FILE, Correction, Corrections, annotated, read_corrections, write_corrections
from mambamatcher.tools.outputs import REFERENCES, RESULTS
from mambamatcher.tools.propagate import Summary, propagate, read_references
from mambamatcher.tools.review import doubt
from mambamatcher.tools.rounds import next_to_correct, read_results

Skeleton = list[tuple[str, str]]  # names of points that a line joins


class ReviewedRun:
    """The results of a run, its references and its corrections.

    Args:
        out: The folder that `propagate` wrote.

    Raises:
        InputError: The folder has no results, or its references, targets or corrections cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        header = _read_header(out)
        with naming(out / RESULTS):
            self._origin = Path(check_kind(header["folder of targets"], str, "folder of targets"))
            self.threshold = float(header["threshold"])
            frames = None if "frames" not in header else FrameSelection.from_json(header["frames"])
        self.targets = read_source(self._origin) if frames is None else read_video(self._origin, frames)
        self.references = _read_references(out)
        images = [load_image(path) for path in self.references]
        self.reference_sizes = [image.size for image in images]
        self._made_for = tuple(map(annotated, images, self.references.values()))
        self.names = list(dict.fromkeys(name for points in self.references.values() for name in points.names))
        self._lock = Lock()
        self.reload()
        self.corrections()  # reports a damaged file before anything is corrected

    def reload(self) -> None:
        """Read the results, by the name of the target and the most doubtful first."""
        names = {item.name for item in self.targets.items}
        found = [result for result in read_results(self.out).values() if result["image"] in names]
        if not found:
            raise InputError(f"{self.out / RESULTS} has no result of an image in {self._origin}")
        self.results: dict[str, Result] = {each["image"]: each for each in sorted(found, key=doubt, reverse=True)}

    def corrections(self) -> Mapping[str, Correction]:
        """Return what is corrected so far, by the name of the target."""
        return self._read().images

    def correct(self, image: str, correction: Correction | None) -> None:
        """Save what was corrected in one image; None drops it.

        Raises:
            InputError: The image or a point is not one of the run, or a point lies outside the image.
        """
        if correction is not None:
            size = self.results[image]["size"]
            if unknown := [name for name in correction.points if name not in self.names]:
                raise InputError(f"there is no point {unknown[0]!r}; the run has {', '.join(map(repr, self.names))}")
            if places := [place for place in correction.points.values() if place is not None]:
                check_points(places, (size[0], size[1]))
        with self._lock:  # the file may have been changed by hand meanwhile, so it is read again
            before = self._read()
            images = {name: each for name, each in before.images.items() if name != image}
            if correction is not None:
                images[image] = correction
            write_corrections(self.out / FILE, replace(before, images=images))

    def image(self, name: str) -> ImageLike:
        """Return the image of a target, not read yet."""
        return next(image for _, image in self.targets.find({name}))

    def next_to_correct(self) -> str | None:
        """Return the image whose correction promises most, of those that are not corrected."""
        corrected = self.corrections()
        return next_to_correct(result for image, result in self.results.items() if image not in corrected)

    def repeat(self, matcher: Matcher) -> Summary:
        """Propagate once more, with the corrected images as further references."""
        matcher.calibration = replace(matcher.calibration, threshold=self.threshold)
        references = read_references(matcher, list(self.references), self.out / REFERENCES)
        summary = propagate(matcher, references, self.targets, self.out)
        self.reload()
        return summary

    def count_done(self) -> int:
        """Return how many targets the file of results has; it grows during a round."""
        with (self.out / RESULTS).open("rb") as file:
            return max(0, sum(1 for _ in file) - 1)

    def _read(self) -> Corrections:
        if not (self.out / FILE).exists():
            return Corrections(self._made_for, {})
        return read_corrections(self.out / FILE, self._made_for, {item.name for item in self.targets.items})


def read_skeleton(path: Path) -> Skeleton:
    """Read which points lines join, from the category of a COCO file: 1-based pairs of its keypoints.

    Raises:
        InputError: The file is missing or is not COCO with a skeleton.
    """
    try:
        category = parse_json(path.read_bytes())["categories"][0]
        names = category["keypoints"]
        joined = [
            (names[first - 1], names[second - 1]) for first, second in category["skeleton"] if min(first, second) > 0
        ]
    except OSError as error:
        raise InputError(f"cannot read a skeleton from {path}: {error.strerror}") from error
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(f"{path} must be COCO with 'keypoints' and 'skeleton' in its category: {error!r}") from error
    if not joined:
        raise InputError(f"{path} has an empty 'skeleton' in its category; give a file with pairs of keypoints")
    return joined


def _read_header(out: Path) -> dict[str, Any]:
    require_file(out / RESULTS)
    with (out / RESULTS).open("rb") as file:
        line = file.readline()
    try:
        header = parse_json(line)
    except ValueError as error:
        raise InputError(f"{out / RESULTS} is damaged: its first line is not JSON ({error})") from error
    if not isinstance(header, dict) or "folder of targets" not in header or "threshold" not in header:
        raise InputError(f"{out / RESULTS} does not say which images it is of; run propagate again into this folder")
    return header


def _read_references(out: Path) -> dict[Path, PointSet]:
    if not (out / REFERENCES).exists():
        raise InputError(f"{out} has no {REFERENCES}; run propagate again into this folder, which resumes")
    return {Path(str(path)): points.visible() for path, points in read_annotations(out / REFERENCES).items()}
