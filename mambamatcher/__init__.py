"""Semantic correspondence: for a point on one object, the same point on a different object of its kind."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mambamatcher.collection import collection_paused
from mambamatcher.version import __version__

if TYPE_CHECKING:
    from mambamatcher import presets
    from mambamatcher.errors import MambaMatcherError
    from mambamatcher.matcher import Matcher, MatchResult
    from mambamatcher.model import MambaMatcher, ModelConfig

__all__ = ["MambaMatcher", "MambaMatcherError", "MatchResult", "Matcher", "ModelConfig", "__version__", "presets"]

_HOMES = {
    "MambaMatcher": "mambamatcher.model",
    "MambaMatcherError": "mambamatcher.errors",
    "MatchResult": "mambamatcher.matcher",
    "Matcher": "mambamatcher.matcher",
    "ModelConfig": "mambamatcher.model",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: `import mambamatcher` itself loads nothing heavy."""
    with collection_paused():
        if name == "presets":
            return import_module("mambamatcher.presets")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mambamatcher' has no attribute {name!r}")
