"""Label Studio's side of a prediction: where its labelling interface takes keypoints, and how it wants them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.points import ABSENT, VISIBLE, PointSet, Settings
from mambamatcher.io.points.label_studio_format import to_results
from mambamatcher.tools.references import TransferredPoints


@dataclass(frozen=True)
class KeypointTag:
    """Where a labelling interface takes keypoints.

    Attributes:
        name: The name of the tag `KeyPointLabels`.
        image: The name of the tag `Image` that it labels.
        field: The field of a task's data that holds the image's address.
    """

    name: str
    image: str
    field: str


def find_keypoint_tag(label_config: str, names: Sequence[str]) -> KeypointTag:
    """Find the tag of a labelling interface that has a label for each of these names.

    Args:
        label_config: The labelling interface, as Label Studio's settings show it under "Code".
        names: The names of the points.

    Raises:
        InputError: The interface is not XML, or has no such tag.
    """
    if "<!DOCTYPE" in label_config:  # it could define entities that grow without bounds
        raise InputError("the labelling interface declares a document type, which Label Studio has no use for")
    try:
        root = ElementTree.fromstring(label_config)
    except ElementTree.ParseError as error:
        raise InputError(f"the labelling interface is not XML: {error}") from error
    images = {tag.get("name"): tag.get("value") or "" for tag in root.iter("Image")}
    tags = [tag for tag in root.iter("KeyPointLabels") if tag.get("toName") in images]
    if not tags:
        raise InputError("the labelling interface has no KeyPointLabels for an Image; add both in its settings")
    missing: list[str] = []
    for tag in tags:
        labels = {each.get("alias") or each.get("value") for each in tag.iter("Label")}
        missing = [name for name in names if name not in labels]
        if not missing:
            image = str(tag.get("toName"))
            return KeypointTag(str(tag.get("name")), image, _field(images[image]))
    raise InputError(
        f"the labelling interface has no keypoint label {missing[0]!r}, a point of the reference; "
        f"add {len(missing)} label{'s' if len(missing) > 1 else ''} to it: {', '.join(map(repr, missing[:10]))}"
    )


def _field(value: str) -> str:
    found = re.fullmatch(r"\$(\w+)", value)
    if found is None:
        raise InputError(f"the Image of the labelling interface has the value {value[:80]!r}; use one like $image")
    return found[1]


def to_prediction(tag: KeypointTag, found: TransferredPoints, model_version: str) -> dict[str, Any]:
    """Return points of an image as one of Label Studio's predictions; those that were not matched are left out."""
    points = PointSet(
        points=found.points,
        names=found.names,
        visibility=np.where(found.matched, VISIBLE, ABSENT),
        confidence=found.confidence,
        size=found.size,
    )
    return {
        "model_version": model_version,
        "score": round(float(found.confidence[found.matched].mean()), 4) if found.matched.any() else 0.0,
        "result": to_results([points], Settings(from_name=tag.name, to_name=tag.image)),
    }
