"""Choose and load the runtime of a saved model."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mambamatcher.errors import BackendError, InputError, MissingExtraError
from mambamatcher.io.atomic import make_folder, write_bytes_atomically
from mambamatcher.matching.runtime import Runtime
from mambamatcher.model.saved import GRAPH, INT8_GRAPH, fingerprint, user_cache
from mambamatcher.registry import unknown

if TYPE_CHECKING:
    from mambamatcher.model.mambamatcher import MambaMatcher

RuntimeName = Literal["onnx", "int8", "torch"]
RUNTIMES = ("onnx", "int8", "torch")


def load_runtime(
    folder: Path,
    runtime: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    low_memory: bool = False,
) -> Runtime:
    """Load a saved model.

    Args:
        folder: Folder of the model.
        runtime: "onnx", "int8" (ONNX Runtime with products of bytes: faster, and matches differ a little) or "torch".
            By default "onnx" where the folder has a graph and the device is the CPU, because that starts faster and
            needs no PyTorch. Asked for "onnx", a folder without a graph is exported once.
        threads: Threads of ONNX Runtime; PyTorch has its own setting, `torch.set_num_threads`.
        device: Where PyTorch computes.
        low_memory: As for `Matcher`, for PyTorch.

    Raises:
        MissingExtraError: The packages of the runtime are not installed.
        BackendError: It cannot run this model.
    """
    if runtime not in (None, *RUNTIMES):
        raise unknown("runtime", str(runtime), RUNTIMES)
    on_cpu = device in (None, "cpu")
    has_graph = (folder / GRAPH).is_file()
    if runtime in ("onnx", "int8") and not on_cpu:
        raise InputError(f"ONNX Runtime computes on the CPU, not on {device!r}; use the runtime torch")
    if runtime == "torch" or (runtime is None and not (has_graph and on_cpu and find_spec("onnxruntime"))):
        return _torch(folder, device, low_memory)
    from mambamatcher.matching.onnx_runtime import OnnxRuntime

    if runtime == "int8":
        if not (folder / INT8_GRAPH).is_file():
            raise BackendError(
                f"{folder} has no {INT8_GRAPH}, which models with a ViT or an EfficientNet have; use the runtime onnx"
            )
        return OnnxRuntime(folder, threads=threads, int8=True)
    return OnnxRuntime(folder, None if has_graph else _exported_once(folder), threads)


def _torch(folder: Path, device: str | None, low_memory: bool) -> Runtime:
    needs = "the runtime torch" if (folder / GRAPH).is_file() else f"{folder}, which has no {GRAPH},"
    require_torch(f"{needs} needs PyTorch, which is not installed")
    from mambamatcher.model.checkpoint import load_pretrained

    return torch_runtime(load_pretrained(folder), device, low_memory)


def torch_runtime(model: "MambaMatcher", device: str | None, low_memory: bool) -> Runtime:
    """Return the runtime of a PyTorch model."""
    from mambamatcher.matching.torch_runtime import TorchRuntime

    return TorchRuntime(model, device, low_memory)


def require_torch(problem: str) -> None:
    """Refuse what only PyTorch can do where it is not installed."""
    if find_spec("torch") is None:
        raise MissingExtraError(f"{problem}; run: pip install 'mambamatcher[torch]'")


def _exported_once(folder: Path) -> bytes:
    """Return the graph of a model without one, from this user's cache or exported now."""
    require_torch(f"{folder} has no {GRAPH}, and exporting one needs PyTorch, which is not installed")
    from mambamatcher.model.checkpoint import load_pretrained
    from mambamatcher.model.config import to_dict

    model = load_pretrained(folder)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    path = user_cache("graphs") / f"{fingerprint(to_dict(model.config), shapes)}.onnx"
    return path.read_bytes() if path.is_file() else _export(model, path)


def _export(model: "MambaMatcher", path: Path) -> bytes:
    from mambamatcher.model.onnx_export import encoder_graph

    graph = encoder_graph(model)
    make_folder(path.parent)
    write_bytes_atomically(path, graph, overwrite=True)
    return graph
