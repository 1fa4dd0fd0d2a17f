"""Export a whole match as one ONNX file: two images and points in, points and confidence out.

The file is complete: with ONNX Runtime, any program can use it without this package.
"""

import json
from dataclasses import asdict
from math import log
from os import PathLike
from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from mambamatcher import __version__
from mambamatcher.errors import BackendError
from mambamatcher.io.atomic import refuse_existing, write_bytes_atomically
from mambamatcher.matching.confidence import EVIDENCE, RETURN_DISTANCE, Calibration
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.onnx_export import OPSET, quiet, require_exporter
from mambamatcher.model.transfer import expected_points, matching_probability, soft_sampler

INPUTS, OUTPUTS = ("source", "target", "points"), ("found", "confidence")
FRAME = (
    "source and target are RGB bytes (3, side, side): the whole image resized to a square, bilinear with a filter that "
    "covers all pixels (Pillow: image.resize((side, side), 2, reducing_gap=3.0)). points and found are (x, y) from -1 "
    "at the left or top edge to 1 at the other: 2 * x / width - 1"
)
Points = Float[Tensor, "keypoint 2"]
Encoded = Float[Tensor, "2 level channel h w"]


class WholePair(nn.Module):
    """What `Matcher.match` computes, for a model with a linear head."""

    def __init__(self, model: MambaMatcher, calibration: Calibration) -> None:
        super().__init__()
        self.model = model
        self.settings = model.config.transfer
        self.bias = calibration.bias
        slopes = [getattr(calibration, name) for name in EVIDENCE]
        self.register_buffer("slopes", torch.tensor(slopes))

    def forward(
        self, source: UInt8[Tensor, "3 side side"], target: UInt8[Tensor, "3 side side"], points: Points
    ) -> tuple[Points, Float[Tensor, " keypoint"]]:
        """Return the matches of the points and their confidence."""
        encoded = self.model.encode(torch.stack([source, target]).float() / 255.0)
        found, rows = self._read(encoded, 0, points)
        returned, _ = self._read(encoded, 1, found)
        agreement = torch.exp(-(returned - points).square().sum(dim=1).sqrt() / RETURN_DISTANCE)
        peak = (rows.amax(dim=1) - rows.mean(dim=1)) / rows.std(dim=1).clamp(min=1e-9)
        energy = (self.settings.temperature * rows).logsumexp(dim=1)
        shares = self.settings.temperature * rows - energy[:, None]
        entropy = -(shares.exp() * shares).sum(dim=1) / log(rows.shape[1])
        height, border = self.settings.temperature * rows.amax(dim=1), 1 - found.abs().amax(dim=1)
        evidence = torch.stack([peak, entropy, agreement, energy, height, border], dim=1)
        return found, torch.sigmoid(evidence @ self.get_buffer("slopes") + self.bias)

    def _read(self, encoded: Encoded, first: int, points: Points) -> tuple[Points, Float[Tensor, "keypoint position"]]:
        """Transfer points from one of the images to the other; also return their scores there."""
        grid = (encoded.shape[3], encoded.shape[4])
        source, target = torch.tensor([first]), torch.tensor([1 - first])
        weights = soft_sampler(points[None], grid, self.settings.radius)
        rows = self.model.correlate_at(encoded, source, target, weights).flatten(2)
        if self.settings.blends_scores:
            probability = matching_probability(rows, grid, self.settings)
        else:
            every = self.model.correlate(encoded[source], encoded[target]).flatten(3).flatten(1, 2)
            probability = weights @ matching_probability(every, grid, self.settings)
        return expected_points(probability, rows, grid, self.settings)[0], rows[0]


def export_pair(
    model: MambaMatcher, calibration: Calibration, path: str | PathLike[str], overwrite: bool = False
) -> None:
    """Write a whole match as an ONNX file; its metadata says what goes in and comes out.

    Args:
        model: Model to export.
        calibration: Turns the evidence of a match into its confidence.
        path: ONNX file to write.
        overwrite: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `overwrite` is false.
        BackendError: The model's correlation head is not linear, or the packages for exporting are not installed.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    if not model.linear:
        raise BackendError(
            "only models with a linear correlation head and per-image features can be exported as a whole pair; "
            "ONNX has no operator for the others"
        )
    require_exporter()
    side = model.config.side
    images = torch.zeros(2, 3, side, side, dtype=torch.uint8)
    points = torch.rand(7, 2)  # any number but one, which the exporter would treat as a constant
    with torch.enable_grad(), quiet():
        program = torch.onnx.export(
            WholePair(model.cpu(), calibration).eval(),
            (*images, points),
            dynamo=True,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_shapes=(None, None, {0: torch.export.Dim("keypoint")}),
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    metadata = {
        "mambamatcher": __version__,
        "side": str(side),
        "frames": FRAME,
        "calibration": json.dumps(asdict(calibration)),
        "threshold": f"a confidence below {calibration.threshold:.4f} means that the target shows no counterpart",
        "opset": str(OPSET),
    }
    del proto.metadata_props[:]
    for key, value in metadata.items():
        proto.metadata_props.add(key=key, value=value)
    write_bytes_atomically(path, proto.SerializeToString(), overwrite)
