"""Points from the files of one tool to those of another."""

from dataclasses import dataclass
from pathlib import Path

from mambamatcher.errors import InputError
from mambamatcher.extras import require
from mambamatcher.io.atomic import parse_json, refuse_existing
from mambamatcher.io.checks import check_kind, naming
from mambamatcher.io.points import (
    FORMATS,
    Annotations,
    Settings,
    Skeleton,
    find_in_folder,
    read_objects,
    with_category,
    with_skeleton,
    write_points,
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is taken from a file of points.

    Args:
        root: Folder of the images. They are looked up in it, named by their paths in it, and their sizes are read.
        category: Take the objects of this category, or name objects so that have none.
        skeleton: Another file that says which points a line joins, see `read_skeleton`.
    """

    root: Path | None = None
    category: str | None = None
    skeleton: Path | None = None


def convert(
    source: Path,
    out: Path,
    format: str,
    choice: Choice | None = None,
    settings: Settings | None = None,
    overwrite: bool = False,
) -> Annotations:
    """Write the points of one file in another format.

    Args:
        source: The file, in any format that can be read.
        out: The file to write, or the folder for a format that has a file per image.
        format: A name from `FORMATS`.
        choice: What to take from the file; by default everything.
        settings: What the format needs besides points.
        overwrite: Whether to replace an existing file.

    Returns:
        What was written.

    Raises:
        InputError: A file is malformed or exists, or an image is not in its folder. Nothing is written then.
    """
    chosen, choice = FORMATS[format], choice or Choice()
    require(*chosen.needs)  # before a large file is read
    refuse_existing(out, overwrite or chosen.is_folder)
    found = read_objects(source)
    with naming(source):
        found = with_category(found, choice.category)
        if choice.root is not None:
            found = find_in_folder(found, choice.root)
        if choice.skeleton is not None:
            found = with_skeleton(found, read_skeleton(choice.skeleton, source, choice.category))
        write_points(out, found, overwrite, format, settings)
    return found


def read_skeleton(path: Path | None, points_file: Path, category: str | None = None) -> Skeleton:
    """Return which points a line joins.

    Args:
        path: JSON with pairs of names, or a file of points that has a skeleton; None takes that of `points_file`.
        points_file: The points that are to be joined.
        category: Whose skeleton to take, where there are several.

    Raises:
        InputError: The file has no such pairs.
    """
    if path is not None and (pairs := _pairs(path)) is not None:
        return pairs
    known = read_objects(path or points_file).skeletons
    if category in known:
        return known[category or ""]
    if path is not None and len(known) != 1:
        raise InputError(f"{path} has {len(known)} skeletons; name the category of the one to use")
    return next(iter(known.values())) if len(known) == 1 else ()


def _pairs(path: Path) -> Skeleton | None:
    """Return the pairs of names of a JSON file; None for a file of something else."""
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError:
        return None
    if not isinstance(content, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        return None
    if any(isinstance(name, int | float) for pair in content for name in pair):
        return None
    with naming(path):
        return tuple((check_kind(start, str, "a name"), check_kind(end, str, "a name")) for start, end in content)
