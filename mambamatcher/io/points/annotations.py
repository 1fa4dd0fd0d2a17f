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
        has_visibility: Whether the format tells hidden points from visible ones.
    """

    images: Mapping[str | None, Sequence[PointSet]]
    skeletons: Mapping[str, Skeleton] = field(default_factory=dict)
    has_visibility: bool = True

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


def with_category(annotations: Annotations, category: str | None) -> Annotations:
    """Keep the objects of one category, or give it to objects that have none.

    Args:
        annotations: The objects of a file.
        category: The category; None changes nothing.

    Raises:
        InputError: The objects have categories, and this is none of them.
    """
    if category is None:
        return annotations
    known = {each.category for each in annotations.objects() if each.category is not None}
    if known and category not in known:
        raise InputError(str(unknown("category", category, known)))
    images = {
        image: [replace(each, category=category) for each in objects if each.category == category or not known]
        for image, objects in annotations.images.items()
    }
    return replace(annotations, images={image: objects for image, objects in images.items() if objects})


def with_skeleton(annotations: Annotations, skeleton: Skeleton) -> Annotations:
    """Join points of every category by the same lines, where there are any to draw.

    Raises:
        InputError: A line is to a point that no category has.
    """
    names = {name for each in annotations.categories.values() for name in each}
    for name in (name for pair in skeleton for name in pair):
        if name not in names:
            raise InputError(str(unknown("point of the skeleton", name, names)))
    return replace(annotations, skeletons=dict.fromkeys(annotations.categories, skeleton)) if skeleton else annotations


def one_per_image(annotations: Annotations, category: str | None = None) -> dict[str | None, PointSet]:
    """Return the only object of each image.

    Args:
        annotations: The objects of a file.
        category: Keep only objects of this category; by default all.

    Raises:
        InputError: An image has several objects, or no object is of that category.
    """
    found = {}
    for image, objects in with_category(annotations, category).images.items():
        if len(objects) > 1:
            one = "name a category, or " if len({each.category for each in objects}) > 1 else ""
            raise InputError(f"{image} has several annotated objects; {one}keep the one whose points to use")
        if objects:
            found[image] = objects[0]
    return found
