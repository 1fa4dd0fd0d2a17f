"""Parts registered outside this package: modules named on the command line, and installed entry points.

A plug-in is a module that registers its classes when it is imported, such as
`@CORRELATION_AGGREGATIONS.register("mine")`. A package announces its own with an entry point of the group
`mambamatcher.plugins`.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from mambamatcher.errors import ConfigError

GROUP = "mambamatcher.plugins"


def load_plugins(modules: Iterable[str] = ()) -> None:
    """Import the plug-ins of installed packages, and these modules.

    Args:
        modules: Names of modules, also of those in the current folder.

    Raises:
        ConfigError: A plug-in cannot be imported.
    """
    for point in entry_points(group=GROUP):
        package = f" of {point.dist.name}" if point.dist is not None else ""
        _load(point.module, f"the plug-in {point.name!r}{package}", "remove or repair that package")
    here = str(Path.cwd())
    for name in modules:
        if here not in sys.path:
            sys.path.append(here)
        _load(name, f"--import {name}", "give the name of a module that Python finds")


def _load(module: str, what: str, remedy: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # whatever a plug-in does wrong
        said = " ".join(str(error).split())
        raise ConfigError(f"{what} cannot be imported: {type(error).__name__}: {said}; {remedy}") from error
