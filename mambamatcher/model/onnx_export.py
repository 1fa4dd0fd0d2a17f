"""Writing the part of a model that standard operators carry, backbone and feature aggregation, as ONNX."""

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


class Describer(nn.Module):
    """What an image needs without knowing the other one: images in [0, 1] to features."""

    def __init__(self, model: MambaMatcher) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Images) -> Aggregated:
        """Describe images."""
        return self.model.encode(images)


def export_onnx(model: MambaMatcher, path: str | PathLike[str], overwrite: bool = False) -> None:
    """Write `model.describe` for any number of images of the model's side.

    Where the aggregation needs both images of a pair, the features are the backbone's. The correlation and its scan
    stay in Python: no standard operator carries a selective scan.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise BackendError("exporting needs onnx and onnxscript; install them with mambamatcher[export]") from error
    # two images, because an axis of length one is taken for a constant
    images = torch.zeros(2, 3, model.config.side, model.config.side, device=model.backbone.mean.device)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # warns of torchvision, which has no part in this
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.onnx.export(
            Describer(model).eval(),
            (images,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            verbose=False,
        )
    assert program is not None
    write_atomically(path, lambda temporary: program.save(str(temporary), external_data=False), overwrite)
