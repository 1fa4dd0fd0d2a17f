"""Export the backbone and the feature aggregation of a model to ONNX."""

import logging
import warnings
from os import PathLike
from pathlib import Path

import torch
from torch import nn

from mambamatcher.errors import BackendError
from mambamatcher.io.atomic import refuse_existing, write_atomically
from mambamatcher.model.features import Aggregated
from mambamatcher.model.mambamatcher import Images, MambaMatcher

INPUT, OUTPUT = "images", "features"


class Encoder(nn.Module):
    """`MambaMatcher.encode` as a module of its own, because torch exports `forward` methods only."""

    def __init__(self, model: MambaMatcher) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Images) -> Aggregated:
        """Encode images."""
        return self.model.encode(images)


def export_onnx(model: MambaMatcher, path: str | PathLike[str], overwrite: bool = False) -> None:
    """Export `model.encode` for batches of any size at the model's image size.

    With a pairwise aggregation the exported features are those of the backbone. Correlation and scan are not exported,
    because ONNX has no operator for a selective scan.

    Args:
        model: Model to export.
        path: ONNX file to write.
        overwrite: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `overwrite` is false.
        BackendError: The packages for exporting are not installed.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise BackendError("exporting needs onnx and onnxscript; install them with mambamatcher[export]") from error
    # Two images, because the exporter treats an axis of length one as a constant.
    images = torch.zeros(2, 3, model.config.side, model.config.side, device=model.backbone.mean.device)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns that torchvision, unused here, is missing
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.onnx.export(
            Encoder(model).eval(),
            (images,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            verbose=False,
        )
    assert program is not None
    write_atomically(path, lambda temporary: program.save(str(temporary), external_data=False), overwrite)
