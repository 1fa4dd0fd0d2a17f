"""Points that the tests of the formats write and read."""

import numpy as np

from mambamatcher.io.points import ABSENT, FORMATS, Annotations, ImageNames, Settings, make_points, name_frame

NAMES = ("nose", "left, eye", "Schwänzchen", 'a "quoted"\nname', "<b>&amp;</b>", "=1+1")
SIZES = ((640, 481), (4000, 3001))
SKELETON = (("nose", "left, eye"), ("nose", "=1+1"))


def some_object(rng: np.random.Generator, size=SIZES[0], category="cat", names=NAMES):
    """Return an object with a hidden and an absent point."""
    points = rng.uniform(0, size, (len(names), 2))
    visibility = [2, 1, 0, 2, 1, 2][: len(names)]
    return make_points(points, names, visibility, rng.uniform(0, 1, len(names)), size, category)


def one_each() -> Annotations:
    rng = np.random.default_rng(1)
    images = {f"photos/{number} é&'.jpg": [some_object(rng, size)] for number, size in enumerate(SIZES)}
    return Annotations(images=images, skeletons={"cat": SKELETON})


def several_each() -> Annotations:
    """Return images with two categories; the first has three objects."""
    rng = np.random.default_rng(2)
    dog = [some_object(rng, category="dog", names=NAMES[:4]) for _ in range(2)]
    images = {"photos/a.jpg": [some_object(rng), *dog], "photos/b.jpg": [some_object(rng)]}
    return Annotations(images=images, skeletons={"cat": SKELETON})


def video() -> Annotations:
    rng = np.random.default_rng(3)
    return Annotations(images={name_frame("clip.mp4", number): [some_object(rng)] for number in (0, 7, 12)})


def file_of(name: str) -> str:
    return FORMATS[name].file.format(scorer=Settings().scorer)


def assert_same_points(found: Annotations, given: Annotations, has_visibility=True, has_confidence=True) -> None:
    """Compare places to 0.01 px, names, visibility, confidences and images; a format may leave out absent points."""
    names = ImageNames(filter(None, found.images))
    assert len(found.images) == len(given.images)
    for image, objects in given.images.items():
        others = found.images[names.find(image)]
        assert len(others) == len(objects)
        for each, other in zip(objects, others, strict=True):
            kept = [row for row, seen in enumerate(each.visibility) if seen != ABSENT]
            rows = [other.names.index(each.names[row]) for row in kept]
            np.testing.assert_allclose(other.points[rows], each.points[kept], atol=0.01)
            assert all(seen == ABSENT for row, seen in enumerate(other.visibility) if row not in rows)
            if has_visibility:
                np.testing.assert_array_equal(other.visibility[rows], each.visibility[kept])
            if has_confidence:
                np.testing.assert_allclose(other.confidence[rows], each.confidence[kept], atol=1e-4)
