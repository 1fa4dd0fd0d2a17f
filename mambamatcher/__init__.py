"""Semantic correspondence: for a point on one object, the same point on a different object of its kind."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mambamatcher.pause_gc import collection_paused

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mambamatcher.errors import MambaMatcherError
    from mambamatcher.matching.matcher import Matcher, MatchResult
    from mambamatcher.model import presets
    from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig

__all__ = ["MambaMatcher", "MambaMatcherError", "MatchResult", "Matcher", "ModelConfig", "__version__", "presets"]

_HOMES = {
    "MambaMatcher": "mambamatcher.model.mambamatcher",
    "MambaMatcherError": "mambamatcher.errors",
    "MatchResult": "mambamatcher.matching.matcher",
    "Matcher": "mambamatcher.matching.matcher",
    "ModelConfig": "mambamatcher.model.mambamatcher",
}
_NEED_TORCH = ("MambaMatcher", "ModelConfig", "presets")


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: `import mambamatcher` itself loads nothing heavy."""
    if name in _NEED_TORCH and find_spec("torch") is None:
        from mambamatcher.errors import BackendError

        raise BackendError(f"{name} needs PyTorch, which is not installed; run: pip install mambamatcher[torch]")
    with collection_paused():
        if name == "presets":
            return import_module("mambamatcher.model.presets")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mambamatcher' has no attribute {name!r}")
