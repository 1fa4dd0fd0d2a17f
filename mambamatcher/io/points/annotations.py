"""Everything a file of points says: the objects of each image, and how the points of a category are joined."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mambamatcher.errors import InputError
from mambamatcher.io.points.point_set import PointSet
from mambamatcher.registry import unknown

DEFAULT_CATEGORY = "object"  # written where a format needs a category and none is known

Skeleton: TypeAlias = tuple[tuple[str, str], ...]  # pairs of names of points that a line joins


@dataclass(frozen=True, kw_only=True)
class Annotations:
    """All objects with points of a file.

    Args:
        images: The objects of each image, by its name; None stands for an image that is not named. A name is a path
            with forward slashes, or a frame of a video, see `name_frame`.
        skeletons: By category, which points a line joins.
    """

    images: Mapping[str | None, Sequence[PointSet]]
    skeletons: Mapping[str, Skeleton] = field(default_factory=dict)

    @property
    def categories(self) -> dict[str, list[str]]:
        """Names of the points of each category, in the order in which they first appear."""
        found: dict[str, dict[str, None]] = {}
        seen: set[tuple[str | None, tuple[str, ...]]] = set()
        for each in self.objects():
            if (each.category, each.names) not in seen:
                seen.add((each.category, each.names))
                found.setdefault(each.category or DEFAULT_CATEGORY, {}).update(dict.fromkeys(each.names))
        return {category: list(names) for category, names in found.items()}

    @property
    def has_several(self) -> bool:
        """Whether some image has several objects."""
        return any(len(objects) > 1 for objects in self.images.values())

    def objects(self) -> Iterable[PointSet]:
        """Yield the objects of all images."""
        return (each for objects in self.images.values() for each in objects)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a file needs besides points. Each format takes what it knows.

    Args:
        image_prefix: Written before the name of every image, such as `/data/local-files/?d=photos/`.
        scorer: Who placed the points, for DeepLabCut and SLEAP.
        from_name: Name of the tag `KeyPointLabels` in the labelling configuration of Label Studio.
        to_name: Name of its tag `Image`.
    """

    image_prefix: str = ""
    scorer: str = "mambamatcher"
    from_name: str = "keypoints"
    to_name: str = "image"


def as_annotations(annotations: Annotations | Mapping[str, PointSet] | Mapping[str | None, PointSet]) -> Annotations:
    """Return annotations; a mapping from images to points has one object per image."""
    if isinstance(annotations, Annotations):
        return annotations
    return Annotations(images={image: [each] for image, each in annotations.items()})


def one_per_image(annotations: Annotations, category: str | None = None) -> dict[str | None, PointSet]:
    """Return the only object of each image.

    Args:
        annotations: The objects of a file.
        category: Keep only objects of this category; by default all.

    Raises:
        InputError: An image has several objects, or no object is of that category.
    """
    known = {each.category for each in annotations.objects()} - {None}
    if category is not None and known:
        if category not in known:
            raise InputError(str(unknown("category", category, (str(each) for each in known))))
        annotations = replace(
            annotations,
            images={
                image: [each for each in objects if each.category == category]
                for image, objects in annotations.images.items()
            },
        )
    found = {}
    for image, objects in annotations.images.items():
        if len(objects) > 1:
            one = (
                "" if category is not None or len({each.category for each in objects}) == 1 else "name a category, or "
            )
            raise InputError(f"{image} has several annotated objects; {one}keep the one whose points to use")
        if objects:
            found[image] = objects[0]
    return found
