"""What people have corrected in the points of `propagate`: the file OUT/corrections.json.

    {"format": "mambamatcher corrections", "version": 1,
     "references": [{"image": "<digest of its pixels>", "points": {"nose": [264.0, 238.0], "tail": [31.5, 90.0]}}],
     "images": {"more/c.png": {"status": "corrected", "points": {"nose": [111.0, 222.0], "tail": null}}}}

`references` are the images and points that the corrections were made for. Under `images`, a point is (x, y) in the
original, upright pixels of its image, or null where the image does not show it. A point that is left out has not been
looked at. The points of an accepted image are written too: they are what was accepted.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any

from PIL import Image

from mambamatcher.datasets.faults import check_kind, check_numbers, naming
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json, write_text_atomically
from mambamatcher.io.points import PointSet

FILE = "corrections.json"
FORMAT = "mambamatcher corrections"
VERSION = 1

Place = tuple[float, float]  # x, y in original, upright pixels


class Status(StrEnum):
    """What was done with an image: its points were right, or some of them were moved or removed."""

    accepted = "accepted"
    corrected = "corrected"


@dataclass(frozen=True)
class Correction:
    """The points of one image as somebody has left them; None: absent there. A name left out was not looked at."""

    status: Status
    points: Mapping[str, Place | None]


@dataclass(frozen=True)
class Annotated:
    """A reference as corrections name it: a digest of its pixels, and its points."""

    image: str
    points: Mapping[str, Place]


@dataclass(frozen=True)
class Corrections:
    """The corrections of a run, by the name of the target, and the references they were made for."""

    references: tuple[Annotated, ...]
    images: Mapping[str, Correction]


def annotated(image: Image.Image, points: PointSet) -> Annotated:
    """Describe a reference, given as `load_image` returns it and with its visible points."""
    hasher = blake2b(f"{image.mode} {image.size}".encode(), digest_size=16)
    hasher.update(image.tobytes())
    places = ((float(x), float(y)) for x, y in points.points)
    return Annotated(hasher.hexdigest(), dict(zip(points.names, places, strict=True)))


def is_corrections(content: Any) -> bool:
    """Return whether the content of a JSON file says that it holds corrections."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def read_corrections(path: Path, references: Sequence[Annotated], targets: Collection[str]) -> Corrections:
    """Read corrections and compare them with the run that they are for.

    Args:
        path: The file.
        references: The references of the run.
        targets: The names of its images.

    Raises:
        InputError: The file is missing or damaged, was made for other references, or names an image or a point that
            the run does not have. The message names the file and the field.
    """
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read corrections from {path}: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); it is damaged, or not a file of corrections") from error
    with naming(path):
        found = parse_corrections(content)
        check_same_references(found.references, references)
        names = {name for each in references for name in each.points}
        for image, correction in found.images.items():
            if image not in targets:
                raise InputError(f"images names {image!r}, which is not among the {len(targets)} targets")
            if unknown := [name for name in correction.points if name not in names]:
                known = ", ".join(map(repr, sorted(names)))
                raise InputError(f"images[{image!r}].points names {unknown[0]!r}, but the reference has {known}")
    return found


def write_corrections(path: Path, corrections: Corrections) -> None:
    """Write corrections in one step, over those that are there."""
    write_text_atomically(path, json.dumps(to_json(corrections), indent=1) + "\n", overwrite=True)


def to_json(corrections: Corrections) -> dict[str, Any]:
    """Return corrections as they are written."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "references": [
            {"image": each.image, "points": {name: list(place) for name, place in each.points.items()}}
            for each in corrections.references
        ],
        "images": {
            image: {
                "status": each.status.value,
                "points": {name: None if place is None else list(place) for name, place in each.points.items()},
            }
            for image, each in corrections.images.items()
        },
    }


def parse_corrections(content: Any) -> Corrections:
    """Return corrections from the content of their file.

    Raises:
        InputError: The content is of another shape; the message names the field.
    """
    if not is_corrections(content):
        raise InputError(f"format must be {FORMAT!r}, which this file does not say")
    if content.get("version") != VERSION:
        raise InputError(f"version must be {VERSION}, got {content.get('version')!r:.60}; another release wrote it")
    references = []
    for number, each in enumerate(check_kind(content["references"], list, "references")):
        where = f"references[{number}]"
        with naming(where):
            points = _places(check_kind(each, dict, where)["points"], where)
            if None in points.values():
                raise InputError(f"{where}.points has a point without a place")
            references.append(Annotated(check_kind(each["image"], str, f"{where}.image"), points))  # type: ignore[arg-type]
    images = {}
    for image, each in check_kind(content["images"], dict, "images").items():
        where = f"images[{image!r}]"
        with naming(where):
            status = check_kind(each, dict, where)["status"]
            if status not in list(Status):
                raise InputError(f"{where}.status must be {' or '.join(Status)}, got {status!r:.60}")
            images[image] = Correction(Status(status), _places(each["points"], where))
    return Corrections(tuple(references), images)


def check_same_references(made_for: Sequence[Annotated], references: Sequence[Annotated]) -> None:
    """Refuse corrections that were made for other references, and name the first difference."""
    if len(made_for) != len(references):
        raise InputError(f"references: it was made for {len(made_for)} of them, and this run has {len(references)}")
    for number, (old, new) in enumerate(zip(made_for, references, strict=True)):
        if old.image != new.image:
            raise InputError(f"references[{number}].image: it was made for another reference image")
        if old.points == new.points:
            continue
        name = next(name for name in {**old.points, **new.points} if old.points.get(name) != new.points.get(name))
        raise InputError(
            f"references[{number}].points: it was made for another reference, where {name!r} is at "
            f"{_place(old.points.get(name))}, and this run has it at {_place(new.points.get(name))}"
        )


def _places(points: Any, where: str) -> dict[str, Place | None]:
    places: dict[str, Place | None] = {}
    for name, place in check_kind(points, dict, f"{where}.points").items():
        if place is not None:
            with naming(f"{where}.points[{name!r}]"):
                check_numbers(place, 2, f"{where}.points[{name!r}]")
        places[name] = None if place is None else (float(place[0]), float(place[1]))
    return places


def _place(place: Place | None) -> str:
    return "no place" if place is None else f"({place[0]:g}, {place[1]:g})"
