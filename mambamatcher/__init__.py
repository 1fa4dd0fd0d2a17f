"""Semantic correspondence: for a point on one object, the same point on a different object of its kind."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mambamatcher.extras import naming_extra
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


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: `import mambamatcher` itself loads nothing heavy."""
    with collection_paused(), naming_extra():
        if name == "presets":
            return import_module("mambamatcher.model.presets")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mambamatcher' has no attribute {name!r}")
