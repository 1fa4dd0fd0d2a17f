"""Export models to ONNX: features for other programs, and the encoder's graph that `OnnxRuntime` runs."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from mambamatcher.extras import require
from mambamatcher.io.atomic import refuse_existing, write_atomically
from mambamatcher.model.config import to_dict
from mambamatcher.model.features import Aggregated
from mambamatcher.model.mambamatcher import Images, MambaMatcher
from mambamatcher.model.saved import FEATURES, FINGERPRINT, PIXELS, WEIGHTS, fingerprint, sealed

INPUT = "images"
OPSET = 23  # the first with an attention operator


class Encoder(nn.Module):
    """`MambaMatcher.encode` as a module of its own, because torch exports `forward` methods only."""

    def __init__(self, model: MambaMatcher) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Images) -> Aggregated:
        """Encode images."""
        return self.model.encode(images)


class PixelEncoder(Encoder):
    """What a runtime asks of an encoder: the bytes of one image in, its features out."""

    def forward(self, pixels: UInt8[Tensor, "3 side side"]) -> Float[Tensor, "level channel h w"]:
        """Encode one image."""
        return self.model.encode(pixels[None].float() / 255.0)[0]


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
        MissingExtraError: The packages for exporting are not installed.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    require_exporter()
    # Two images, because the exporter treats an axis of length one as a constant.
    images = torch.zeros(2, 3, model.config.side, model.config.side, device=model.backbone.mean.device)
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            Encoder(model).eval(),
            (images,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[FEATURES],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            verbose=False,
        )
    assert program is not None
    write_atomically(path, lambda temporary: program.save(str(temporary), external_data=False), overwrite)


def encoder_graph(model: MambaMatcher, as_products: bool = True) -> bytes:
    """Return the graph of `model.encode` for one image, without its weights.

    Every weight has the name it has in `model.safetensors`, from where `OnnxRuntime` reads it.

    Args:
        model: Model to export.
        as_products: Whether an aggregation's convolutions become matrix products where these are faster.

    Raises:
        MissingExtraError: The packages for exporting are not installed.
    """
    require_exporter()
    side = model.config.side
    pixels = torch.zeros(3, side, side, dtype=torch.uint8, device=model.backbone.mean.device)
    # With gradients, layers use no kernels or folded weights of their own: ONNX Runtime folds and fuses at loading.
    with torch.enable_grad(), quiet(), _products_in(model, as_products):
        program = torch.onnx.export(
            PixelEncoder(model).eval(),
            (pixels,),
            dynamo=True,
            input_names=[PIXELS],
            output_names=[FEATURES],
            opset_version=OPSET,
            optimize=False,  # it would fold weights into constants
            verbose=False,
        )
    assert program is not None
    graph = without_weights(program.model_proto, model)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    graph.metadata_props.add(key=FINGERPRINT, value=fingerprint(to_dict(model.config), shapes))
    return sealed(graph)


@contextmanager
def _products_in(model: MambaMatcher, wanted: bool) -> Iterator[None]:
    model.features.as_products = wanted
    try:
        yield
    finally:
        model.features.as_products = False


def without_weights(exported: Any, model: MambaMatcher) -> Any:
    """Take the values of all weights out of a graph, fold what depends on none of them, and drop comments."""
    import onnx
    from onnxscript import optimizer

    names = {f"model.{key}": key for key, value in model.state_dict().items() if value.is_floating_point()}
    graph = exported.graph
    kept = [each for each in graph.initializer if each.name not in names]
    weights = [each for each in graph.initializer if each.name in names]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    # as inputs, weights are unknown to the optimiser
    graph.input.extend(onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in weights)
    folded = optimizer.optimize(exported, onnx_shape_inference=True)
    graph = folded.graph
    images = [each for each in graph.input if each.name not in names]
    del graph.input[:]
    graph.input.extend(images)
    used = {each for node in graph.node for each in node.input}
    for each in weights:
        if each.name in used:
            outside = graph.initializer.add(name=names[each.name], data_type=each.data_type, dims=each.dims)
            outside.data_location = onnx.TensorProto.EXTERNAL
            outside.external_data.add(key="location", value=WEIGHTS)
    for number, node in enumerate(graph.node):
        node.input[:] = [names.get(each, each) for each in node.input]
        node.name, node.doc_string = f"{node.op_type}_{number}", ""
        del node.metadata_props[:]
    for part in (graph.value_info, graph.metadata_props, folded.metadata_props, folded.functions):
        del part[:]
    for value in (*graph.input, *graph.output):
        del value.metadata_props[:]
    return folded


def require_exporter() -> None:
    """Refuse to export where the packages for it are not installed."""
    require("onnx", "onnxscript")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what the exporter says about itself."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns that torchvision, unused here, is missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
