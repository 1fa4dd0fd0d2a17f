"""PCK, the percentage of correct keypoints, with every choice that papers leave unsaid given a name.

reference   what the threshold is a fraction of, always of the target picture:
            img             its longer side
            bbox            the longer side of the object's annotated box, never clipped
            bbox-kp         the longer side of the box around the keypoints that are present
            bbox-kp-padded  as computed by evaluators that pad absent keypoints with -2 and measure the padding too;
                            larger than bbox-kp, here only to compare with numbers published that way
scale       isotropic (distances in original pixels) or anisotropic (both axes first scaled to a square)
average     image (mean over pairs of each pair's share), point (share over all points), or the mean of either over
            categories
A keypoint is correct when its distance is at most the threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.registry import unknown

ALPHAS = (0.01, 0.05, 0.10, 0.15, 0.20)
REFERENCES = ("img", "bbox", "bbox-kp", "bbox-kp-padded")
SCALES = ("isotropic", "anisotropic")

_PADDING = -2.0  # CHM and TransforMatcher; CATs pads with -1
_PADDED_SIDE = 256.0  # the square their padding is added in; every other reference is free of it


@dataclass(frozen=True)
class Targets:
    """What predictions are measured against, in original pixels of the target picture; padding is not `present`."""

    points: Float[Tensor, "batch keypoint 2"]
    present: Bool[Tensor, "batch keypoint"]
    size: Num[Tensor, "batch 2"]
    box: Float[Tensor, "batch 4"]
    box_present: Bool[Tensor, " batch"]


def check_protocol(reference: str, scale: str) -> None:
    """Refuse names that are not a reference or a scale."""
    for kind, name, known in (("reference", reference, REFERENCES), ("scale", scale, SCALES)):
        if name not in known:
            raise unknown(kind, name, known)


def relative_errors(
    predicted: Float[Tensor, "batch keypoint 2"], targets: Targets, reference: str, scale: str = "isotropic"
) -> Float[Tensor, "batch keypoint"]:
    """Return each distance as a fraction of the pair's reference size; alpha is compared with it."""
    check_protocol(reference, scale)
    factor = _factor(targets.size, scale)
    distance = ((predicted.double() - targets.points.double()) * factor).norm(dim=-1)
    # dividing rounds once, so a distance of exactly alpha times the reference is correct, as multiplying cannot promise
    relative = distance / reference_size(targets, reference, scale)[:, None]
    return torch.where(distance == 0, 0.0, relative)


def reference_size(targets: Targets, reference: str, scale: str = "isotropic") -> Float[Tensor, " batch"]:
    """Return what alpha is multiplied by, for each pair, in the pixels of the scale."""
    factor = _factor(targets.size, scale)
    if reference == "img":
        extent = targets.size.double() * factor[:, 0]
    elif reference == "bbox":
        if not bool(targets.box_present.all()):
            raise InputError("the reference bbox needs a box in every target; use bbox-kp or img")
        extent = (targets.box[:, 2:] - targets.box[:, :2]).double() * factor[:, 0]
    else:
        points = targets.points.double() * factor
        present = targets.present[..., None]
        highest = points.masked_fill(~present, -torch.inf).amax(dim=1)
        lowest = points.masked_fill(~present, torch.inf).amin(dim=1)
        extent = highest - lowest if reference == "bbox-kp" else highest - lowest.clamp(max=_PADDING)
    return extent.amax(dim=-1)


def _factor(size: Num[Tensor, "batch 2"], scale: str) -> Float[Tensor, "batch 1 2"]:
    return (_PADDED_SIDE / size.double() if scale == "anisotropic" else torch.ones_like(size.double()))[:, None]


def averages(
    correct: Int[Tensor, "pair alpha"],
    counts: Int[Tensor, " pair"],
    classes: Int[Tensor, " pair"],
    categories: Sequence[str],
) -> dict[str, Float[Tensor, " alpha"]]:
    """Average correct keypoints over pairs, over points and over categories."""
    shares = correct.double() / counts[:, None]
    result = {"image": shares.mean(dim=0), "point": correct.sum(dim=0).double() / counts.sum()}
    for number, name in enumerate(categories):
        mine = classes == number
        if bool(mine.any()):
            result[f"image/{name}"] = shares[mine].mean(dim=0)
            result[f"point/{name}"] = correct[mine].sum(dim=0).double() / counts[mine].sum()
    for kind in ("image", "point"):
        rows = [value for key, value in result.items() if key.startswith(f"{kind}/")]
        result[f"category-{kind}"] = torch.stack(rows).mean(dim=0)
    return result
