"""PCK, the percentage of correct keypoints, with a name for every choice that papers leave implicit.

reference   what the threshold is a fraction of, always in the target image:
            img             the longer side of the image
            bbox            the longer side of the annotated bounding box of the object, not clipped to the image
            bbox-kp         the longer side of the bounding box of the keypoints that are present
            bbox-kp-padded  as computed by evaluators that pad absent keypoints with -2 and include the padding in the
                            box; larger than bbox-kp, provided only to compare with results published that way
scale       isotropic (distances in original pixels) or anisotropic (both axes first scaled to a square)
average     image (mean over pairs of the PCK of each pair), point (PCK over all points pooled), or the mean of either
            over categories
A keypoint is correct if its distance is at most the threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from mambamatcher.errors import InputError
from mambamatcher.registry import unknown

ALPHAS = (0.01, 0.05, 0.10, 0.15, 0.20)
REFERENCES = ("img", "bbox", "bbox-kp", "bbox-kp-padded")
SCALES = ("isotropic", "anisotropic")

_PADDING = -2.0  # CHM and TransforMatcher; CATs pads with -1
_PADDED_SIDE = 256.0  # side of the square in which they pad; the other references do not depend on it


@dataclass(frozen=True)
class Targets:
    """Ground truth of a batch in original pixels of the target images; padded keypoints are not `present`."""

    points: Float[np.ndarray, "batch keypoint 2"]
    present: Bool[np.ndarray, "batch keypoint"]
    size: Num[np.ndarray, "batch 2"]
    box: Float[np.ndarray, "batch 4"]
    box_present: Bool[np.ndarray, " batch"]


def check_protocol(reference: str, scale: str) -> None:
    """Check the names of a protocol.

    Raises:
        ConfigError: The reference or the scale is unknown.
    """
    for kind, name, known in (("reference", reference, REFERENCES), ("scale", scale, SCALES)):
        if name not in known:
            raise unknown(kind, name, known)


def relative_errors(
    predicted: Float[np.ndarray, "batch keypoint 2"], targets: Targets, reference: str, scale: str = "isotropic"
) -> Float[np.ndarray, "batch keypoint"]:
    """Return the error of each keypoint as a fraction of the reference size of its pair.

    Args:
        predicted: Predicted points in original pixels of the target image.
        targets: Ground truth of the batch.
        reference: One of `REFERENCES`.
        scale: One of `SCALES`.

    Returns:
        Errors to compare with alpha: a keypoint is correct if its error is at most alpha.

    Raises:
        ConfigError: The reference or the scale is unknown.
        InputError: The reference is `bbox` and a target has no box.
    """
    check_protocol(reference, scale)
    factor = _factor(targets.size, scale)
    distance = np.linalg.norm((_double(predicted) - _double(targets.points)) * factor, axis=-1)
    # dividing rounds only once, so a distance of exactly alpha x reference is correct; multiplying may round it down
    with np.errstate(divide="ignore", invalid="ignore"):  # a single keypoint has no extent
        relative = distance / reference_size(targets, reference, scale)[:, None]
    return np.where(distance == 0, 0.0, relative)


def reference_size(targets: Targets, reference: str, scale: str = "isotropic") -> Float[np.ndarray, " batch"]:
    """Return the size that alpha is a fraction of, per pair: in original pixels, or in those of the scaled square."""
    factor = _factor(targets.size, scale)
    if reference == "img":
        extent = _double(targets.size) * factor[:, 0]
    elif reference == "bbox":
        if not bool(targets.box_present.all()):
            raise InputError("the reference bbox needs a bounding box in every target; use bbox-kp or img")
        extent = _double(targets.box[:, 2:] - targets.box[:, :2]) * factor[:, 0]
    else:
        points = _double(targets.points) * factor
        present = targets.present[..., None]
        highest = np.where(present, points, -np.inf).max(axis=1)
        lowest = np.where(present, points, np.inf).min(axis=1)
        extent = highest - lowest if reference == "bbox-kp" else highest - np.minimum(lowest, _PADDING)
    return extent.max(axis=-1)


def _factor(size: Num[np.ndarray, "batch 2"], scale: str) -> Float[np.ndarray, "batch 1 2"]:
    return (_PADDED_SIDE / _double(size) if scale == "anisotropic" else np.ones(size.shape))[:, None]


def _double(values: Num[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    return values.astype(np.float64)


def averages(
    correct: Int[np.ndarray, "pair alpha"],
    counts: Int[np.ndarray, " pair"],
    classes: Int[np.ndarray, " pair"],
    categories: Sequence[str],
) -> dict[str, Float[np.ndarray, " alpha"]]:
    """Average the correct keypoints over pairs, over points and over categories.

    Args:
        correct: Number of correct keypoints per pair and alpha.
        counts: Number of keypoints per pair.
        classes: Index of the category of each pair.
        categories: Names of the categories; those without pairs are left out of the result.

    Returns:
        PCK from 0 to 1 per alpha, under the keys `image`, `point`, `category-image` and `category-point` (means over
        categories), `image/<category>` and `point/<category>`.
    """
    shares = correct / counts[:, None]
    result = {"image": shares.mean(axis=0), "point": correct.sum(axis=0) / counts.sum()}
    for number, name in enumerate(categories):
        mine = classes == number
        if bool(mine.any()):
            result[f"image/{name}"] = shares[mine].mean(axis=0)
            result[f"point/{name}"] = correct[mine].sum(axis=0) / counts[mine].sum()
    for kind in ("image", "point"):
        rows = [value for key, value in result.items() if key.startswith(f"{kind}/")]
        result[f"category-{kind}"] = np.stack(rows).mean(axis=0)
    return result
