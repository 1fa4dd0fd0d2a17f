"""An auto-annotation function of CVAT: `cvat-cli task auto-annotate ID --function-module mambamatcher.tools.cvat`.

CVAT's command line calls `create` with the values of `-p`, asks for `spec`, and calls `detect` for each image.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mambamatcher.errors import InputError, MambaMatcherError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.references import propagate_to, read_references


class PointTransfer:
    """Finds the points of an annotated image in the images of a CVAT task.

    Args:
        reference: The annotated image.
        points: Its points: any file that `propagate` reads.
        label: The skeleton's name in CVAT. Its points are named as those of the reference.
        skeleton: Whether the points form a skeleton; otherwise each name is a label of its own, of the type points.
        model: The matcher's model, as for `Matcher.from_pretrained`.

    Raises:
        InputError: The image or its points cannot be used.
        WeightsError: There is no such model.
    """

    def __init__(
        self, reference: str, points: str, label: str = "object", skeleton: bool = True, model: str | None = None
    ) -> None:
        self._matcher = Matcher.from_pretrained(model)
        self._references = read_references(self._matcher, [Path(reference)], Path(points))
        self._label = label
        self._skeleton = skeleton

    @property
    def spec(self) -> Any:
        """The labels that a task must have, as CVAT describes them."""
        from cvat_sdk.auto_annotation import DetectionFunctionSpec, keypoint_spec, label_spec, skeleton_label_spec

        names = self._references[0].points.names
        if not self._skeleton:
            return DetectionFunctionSpec(
                labels=[label_spec(name, number, type="points") for number, name in enumerate(names)]
            )
        parts = [keypoint_spec(name, number) for number, name in enumerate(names)]
        return DetectionFunctionSpec(labels=[skeleton_label_spec(self._label, 0, parts)])

    def detect(self, context: Any, image: Image.Image) -> list[Any]:
        """Return the points found in an image.

        Points below the threshold, which is CVAT's `--conf-threshold` or the model's own, are not on the image: a
        skeleton has them as outside.
        """
        from cvat_sdk.auto_annotation import keypoint, shape, skeleton

        found = propagate_to(self._matcher, self._references, image)
        limit = context.conf_threshold
        kept = found.matched if limit is None else found.confidence >= limit
        places = found.points.tolist()
        if not self._skeleton:
            return [shape(number, type="points", points=places[number]) for number in np.flatnonzero(kept).tolist()]
        if not kept.any():
            return []
        parts = [keypoint(number, place, outside=not kept[number]) for number, place in enumerate(places)]
        return [skeleton(0, parts)]


def create(
    reference: str | None = None,
    points: str | None = None,
    label: str = "object",
    skeleton: bool = True,
    model: str | None = None,
) -> PointTransfer:
    """Make the function from the parameters of CVAT's command line; they are those of `PointTransfer`.

    Raises:
        InputError: The image or its points are missing or cannot be used.
        WeightsError: There is no such model.
    """
    try:
        if reference is None or points is None:
            raise InputError("give an annotated image and its points: -p reference=str:IMAGE -p points=str:FILE")
        return PointTransfer(reference, points, label, skeleton, model)
    except MambaMatcherError as error:
        if "cvat_cli" not in sys.modules:
            raise
        sys.exit(f"mambamatcher: {error}")  # that program would print a traceback
