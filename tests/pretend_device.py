"""A device that is not there: its tensors are computed on the CPU, but nothing may mix them with those of the CPU.

`python -m tests.pretend_device FOLDER` matches the pictures of FOLDER on the CPU and on such a device, and prints what
both found. What a GPU would refuse (tensors of two devices in one operation, NumPy reading its memory) is refused here
too. A process of its own, since PyTorch cannot forget a device.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from mambamatcher import Matcher
from mambamatcher.model.checkpoint import load_pretrained, reconfigured
from mambamatcher.model.saved import SHIPPED
from mambamatcher.tools.flow import dense_flow

NAME = "pretend"
POINTS = [(10.0, 20.0), (45.0, 30.0), (70.0, 50.0)]


def embedded() -> Matcher:
    model = load_pretrained(SHIPPED["lite"])
    return Matcher(reconfigured(model, replace(model.config, side=96)))


MODELS = {"embedded": embedded, "tiny": lambda: Matcher.from_preset("tiny")}  # without the scan and with it
MOVING = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Apart(torch.Tensor):
    """A tensor of the device: says so to all who ask, and holds one of the CPU."""

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Apart":
        with torch.inference_mode(False):  # a view of a parameter is not allowed to be an inference tensor
            return torch.Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=f"{NAME}:0",
            )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return compute(operation, args, kwargs or {})


class Pretending(TorchDispatchMode):
    """Operations that make tensors come here too."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return compute(operation, args, kwargs or {})


def compute(operation: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    apart = [isinstance(each, Apart) for each in tensors]
    here = any(not there and each.ndim for each, there in zip(tensors, apart, strict=True))  # a number may come along
    if any(apart) and here and operation not in MOVING:
        raise RuntimeError(f"{operation} of tensors on two devices")
    there = any(apart)
    if kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == NAME
        kwargs = {**kwargs, "device": torch.device("cpu")}
    held_args, held_kwargs = tree_map_only(Apart, lambda each: each.held, (args, kwargs))
    result = operation(*held_args, **held_kwargs)
    if operation._schema.name.endswith("_"):  # in place
        return args[0]
    return tree_map_only(torch.Tensor, Apart, result) if there else result


class Backend(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16]


def register() -> torch.library.Library:
    """Make the device known; what `new_tensor` calls passes by every mode."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
    library = torch.library.Library("aten", "IMPL")

    def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
        return Apart(torch.empty_strided(size, stride, dtype=dtype))

    def copy_from(source, target, non_blocking=False):
        target.held.copy_(source)
        return target

    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    return library


def answers(matcher: Matcher, folder: Path) -> dict[str, Any]:
    """Everything the tool asks of a matcher."""
    source, target = folder / "source.png", folder / "target.png"
    result = matcher.match(source, target, POINTS, top_k=3)
    flow = dense_flow(matcher.prepare(source, target))
    return {
        "device": matcher.model.backbone.mean.device.type,
        "points": result.points.tolist(),
        "confidence": result.confidence.tolist(),
        "modes": result.modes.points.tolist(),
        "heatmap": result.heatmap(0).tolist(),
        "suggested": matcher.suggest_points(source, 4).tolist(),
        "trust": float(flow.trust.mean()),
    }


def main(folder: Path) -> None:
    found = {}
    registered = register()
    for name, make in MODELS.items():
        torch.manual_seed(0)
        on_cpu = answers(make(), folder)
        torch.manual_seed(0)
        made = make()
        with Pretending():
            cached = {"cache_folder": folder / name, "calibration": made.calibration, "device": NAME}
            on_device = [answers(Matcher(made.model, **cached), folder) for _ in range(2)]  # the second from the disk
        found[name] = [on_cpu, *on_device]
    json.dump(found, sys.stdout)
    registered._destroy()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
