"""Names of images: those of other tools found among our own, in a folder, and frames of videos."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from os.path import isdir, isfile  # unlike those of Path, they accept names that no file can have
from pathlib import Path, PurePosixPath

from mambamatcher.errors import InputError
from mambamatcher.io.images import read_size
from mambamatcher.io.points.annotations import Annotations
from mambamatcher.io.points.point_set import PointSet, Size

UNNAMED_VIDEO = "video"  # of frames in a file that does not say which video they are of
_FRAME = re.compile(r"(.+)#(\d+)\Z", re.DOTALL)


def name_frame(video: str, index: int) -> str:
    """Return the name of a frame of a video, counted from 0.

    Example:
        >>> name_frame("clip.mp4", 12)
        'clip.mp4#12'
    """
    return f"{video}#{index}"


def split_frame(name: str) -> tuple[str, int] | None:
    """Return the video and the number of a frame from its name; None for the name of an image.

    Example:
        >>> split_frame("clip.mp4#12"), split_frame("a.png")
        (('clip.mp4', 12), None)
    """
    found = _FRAME.match(name)
    return None if found is None else (found[1], int(found[2]))


class ImageNames:
    """Finds images by names that other tools have given them, such as with other folders before them.

    Args:
        known: Names as this program knows them.

    Example:
        >>> ImageNames(["a/0.jpg", "b/0.jpg", "1.jpg"]).find("labeled-data/b/0.jpg")
        'b/0.jpg'
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._by_file: dict[str, list[str]] = defaultdict(list)
        for name in self._known:
            self._by_file[name.rpartition("/")[2]].append(name)
        self._videos = {frame[0] for frame in map(split_frame, self._known) if frame is not None}

    def find(self, name: str) -> str | None:
        """Return the known name that shares most folders from the end; None where there is none, or several are."""
        if name in self._known:
            return name
        frame = split_frame(name)
        if frame is not None and frame[0] == UNNAMED_VIDEO and len(self._videos) == 1:
            there = name_frame(next(iter(self._videos)), frame[1])
            return there if there in self._known else None
        parts = PurePosixPath(name.replace("\\", "/")).parts[::-1]
        ranked: dict[int, list[str]] = defaultdict(list)
        for candidate in self._by_file.get(parts[0], ()) if parts else ():
            theirs = PurePosixPath(candidate).parts[::-1]
            same = next((n for n, (a, b) in enumerate(zip(parts, theirs, strict=False)) if a != b), None)
            ranked[min(len(parts), len(theirs)) if same is None else same].append(candidate)
        best = ranked[max(ranked)] if ranked else []
        return best[0] if len(best) == 1 else None


def find_in_folder(annotations: Annotations, root: Path) -> Annotations:
    """Name images by their paths within a folder, and fill in their sizes.

    An image is the file of its name within `root`, or else the one whose path ends most alike.

    Args:
        annotations: The objects of each image.
        root: The folder.

    Raises:
        InputError: An image is not in the folder, or cannot be read.
    """
    if not isdir(root):
        raise InputError(f"there is no folder {root}")
    names: ImageNames | None = None
    images: dict[str | None, list[PointSet]] = {}
    for image, objects in annotations.images.items():
        if image is None:
            raise InputError("the points do not say which image they are on")
        found: str | None = image
        if not _is_within(root, image):
            if names is None:  # only now, since it lists the whole folder
                names = ImageNames(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
            found = names.find(image)
        if found is None:
            raise InputError(f"{image} is not in {root}, or several files have its name")
        if found in images:
            raise InputError(f"{image} is the same file in {root} as another image of these points")
        size = read_size(root / found)
        images[found] = [replace(each, size=_same_size(each.size, size, image)) for each in objects]
    return replace(annotations, images=images)


def _is_within(root: Path, image: str) -> bool:
    path = PurePosixPath(image)
    return not path.is_absolute() and ".." not in path.parts and isfile(root / path)


def _same_size(said: Size | None, size: Size, image: str) -> Size:
    if said is not None and said != size:
        raise InputError(
            f"{image} has {size[0]}x{size[1]} pixels, and its points are for {said[0]}x{said[1]}; it is another image"
        )
    return size
