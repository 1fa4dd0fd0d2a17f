"""Size of an installation: the packages that an extra requires, and the space they take."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_MEGA = 1_000_000


def dependencies(package: str, extra: str = "") -> set[str] | None:
    """Return every package that another needs, itself left out; None if one of them is not installed here.

    Args:
        package: Name of an installed package.
        extra: One of its extras; without one, only what it always needs.
    """
    open_, seen = [(package, extra)], set[tuple[str, str]]()
    while open_:
        name, wanted = each = open_.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            return None
        for text in found.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": wanted}):
                for also in ("", *needed.extras):
                    open_.append((canonicalize_name(needed.name), canonicalize_name(also)))
    return {name for name, _ in seen} - {canonicalize_name(package)}


def megabytes(packages: set[str]) -> float:
    """Return the space that the files of installed packages take, in millions of bytes."""
    return sum(_bytes(distribution(name)) for name in packages) / _MEGA


def _bytes(found: Distribution) -> int:
    places = {found.locate_file(file).resolve() for file in found.files or []}  # type: ignore[attr-defined]
    return sum(place.stat().st_size for place in places if place.is_file())
