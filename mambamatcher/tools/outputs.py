"""The files of a run of `propagate`, and the promise that none of them is replaced after somebody changed it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.extras import require
from mambamatcher.io.atomic import parse_json, write_atomically
from mambamatcher.io.points import (
    ABSENT,
    HIDDEN,
    VISIBLE,
    Annotations,
    PointSet,
    Settings,
    Skeleton,
    make_points,
    with_skeleton,
    write_points,
)
from mambamatcher.io.points import FORMATS as POINT_FORMATS
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.source import Source
from mambamatcher.tools.references import Reference
from mambamatcher.tools.review import make_review

RESULTS, CSV, COCO, REVIEW = "points.jsonl", "points.csv", "points.coco.json", "review.html"
FORMATS = (CSV, COCO, REVIEW)  # always written from the results
REFERENCES = "references.json"  # the references with their paths, as a file of points
PREVIOUS = "previous.jsonl"  # the results of the round before
ROUND = ("threshold", "corrections")  # what may differ between the rounds of a run


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a run writes besides CSV, COCO and the page to review it by.

    Args:
        formats: Names of further formats of points, from `mambamatcher.io.points.FORMATS`.
        category: That of the object; by default the one of the references.
        skeleton: Pairs of names of points that a line joins.
        settings: What the formats need besides points.
        smooth: Of a video, whether to write smoothed points too, and draw these. The results stay as they were found.
    """

    formats: tuple[str, ...] = ()
    category: str | None = None
    skeleton: Skeleton = ()
    settings: Settings = field(default_factory=Settings)
    smooth: bool = False

    def __post_init__(self) -> None:
        for name in self.formats:
            require(*POINT_FORMATS[name].needs)
        if PurePath(self.settings.scorer).name != self.settings.scorer:
            raise InputError(f"a scorer is part of a file name, and {self.settings.scorer!r} cannot be")

    def file(self, format: str) -> str:
        """Return the name of the file, or folder, of a format."""
        return POINT_FORMATS[format].file.format(scorer=self.settings.scorer)

    @property
    def files(self) -> list[str]:
        """Names of the files of all formats that are files."""
        return [self.file(name) for name in self.formats if not POINT_FORMATS[name].is_folder]


def check_unchanged(
    out: Path,
    written: WrittenFiles,
    taken_in: Path | None,
    outputs: Outputs | None = None,
    drawn: Sequence[str] = (),
) -> None:
    """Refuse a folder with a file that was changed since it was written, but for one whose changes are taken in.

    Args:
        out: The folder.
        written: Its record.
        taken_in: A file whose changes are taken in as corrections.
        outputs: Further formats that will be written.
        drawn: Further files that will be written and hold no corrections.
    """
    replaced = (*FORMATS, *(outputs.files if outputs is not None else ()), *drawn)
    for name in dict.fromkeys((RESULTS, *replaced, REFERENCES, *written.names)):
        ours = written.has(name) or (name in replaced and (out / RESULTS).exists())
        is_editable = name not in (RESULTS, REVIEW, REFERENCES, *drawn)
        if ours and written.is_changed(name) and not (is_editable and _is_part(out / name, taken_in)):
            said = "was changed since it was written" if written.has(name) else "was not written by this program"
            file = out / PurePosixPath(name).parts[0]
            take = f"take its changes in with --corrections {file}, or " if is_editable else ""
            raise InputError(f"{out / name} {said} and is not replaced; {take}use another folder")


def check_formats(targets: Source, references: Sequence[Reference], outputs: Outputs) -> None:
    """Refuse formats that cannot hold these images, names or lines before anything is computed.

    Each format is written to a temporary folder, with points in the first image alone.
    """
    names = list(dict.fromkeys(name for each in references for name in each.points.names))
    confidence = np.ones(len(names))
    points = make_points(np.zeros((len(names), 2)), names, None, confidence, (1, 1), _category(references, outputs))
    images: dict[str | None, list[PointSet]] = {item.name: [] for item in targets.items}
    images[targets.items[0].name] = [points]
    found = with_skeleton(Annotations(images=images), outputs.skeleton)
    with TemporaryDirectory() as folder:
        for name in dict.fromkeys(outputs.formats):
            write_points(Path(folder) / outputs.file(name), found, format=name, settings=outputs.settings)


def _category(references: Sequence[Reference], outputs: Outputs) -> str | None:
    return outputs.category or next((each.points.category for each in references), None)


def keep_aside(out: Path, written: WrittenFiles, taken_in: Path) -> None:
    """Rename a changed file or folder of the run whose changes were taken in; it may hold more than points."""
    names = [name for name in dict.fromkeys((CSV, COCO, *written.names)) if _is_part(out / name, taken_in)]
    if not any(written.is_changed(name) for name in names):
        return
    number = 1
    while (aside := out / f"edited-{number}-{taken_in.name}").exists():
        number += 1
    try:
        taken_in.rename(aside)
    except OSError as error:
        raise InputError(f"cannot rename {taken_in}: {error.strerror}") from error
    written.forget(names)


def begin_round(out: Path, header: Mapping[str, Any]) -> bool:
    """Return whether the results there are of an earlier round of this run, and keep a copy of them if so."""
    try:
        content = (out / RESULTS).read_bytes()
        before = parse_json(content.partition(b"\n")[0])
    except (OSError, ValueError):
        return False  # there are none, or the journal says what is wrong with them
    wanted = json.loads(json.dumps(header))
    if not isinstance(before, dict) or before == wanted:
        return False
    if {**before, **dict.fromkeys(ROUND)} != {**wanted, **dict.fromkeys(ROUND)}:
        return False
    write_atomically(out / PREVIOUS, lambda temporary: _fill(temporary, content), overwrite=True)
    return True


def write_formats(
    written: WrittenFiles,
    targets: Source,
    results: Sequence[Result],
    references: Sequence[Reference] = (),
    outputs: Outputs | None = None,
) -> None:
    """Write all results as CSV, COCO, the formats asked for and the page to review them by."""
    outputs = outputs or Outputs()
    category = _category(references, outputs)
    found = Annotations(
        images={result["image"]: [point_set(result, category)] for result in results if "error" not in result}
    )
    joined = with_skeleton(found, outputs.skeleton) if found.images else found
    plain = Settings()
    for name, format, settings in (
        (CSV, "csv", plain),
        (COCO, "coco", plain),
        *((outputs.file(format), format, outputs.settings) for format in outputs.formats),
    ):
        write = partial(write_points, annotations=joined, overwrite=True, format=format, settings=settings)
        (written.fill_folder if POINT_FORMATS[format].is_folder else written.fill)(name, write)
    shown = [
        ("reference" if each.path is None else each.path.name, each.loaded.image, each.points) for each in references
    ]
    written.write(REVIEW, make_review(targets.find, results, shown), errors="replace")


def write_references(written: WrittenFiles, references: Sequence[Reference]) -> None:
    """Write the references that were read from files, for `read_references`."""
    named = [(str(each.path), each.points) for each in references if each.path is not None]
    entries = {path: {"points": each.points.tolist(), "names": list(each.names)} for path, each in named}
    if entries:
        written.write(REFERENCES, json.dumps({"images": entries}, indent=1) + "\n")


def _is_part(path: Path, other: Path | None) -> bool:
    """Return whether a file is another, or lies in it."""
    return other is not None and path.absolute().is_relative_to(other.absolute())


def _fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def point_set(result: Result, category: str | None = None) -> PointSet:
    """Return the points of a result as files of points hold them."""
    points = result["points"]
    return PointSet(
        points=np.array([(each["x"], each["y"]) for each in points], dtype=np.float64),
        names=tuple(each["name"] for each in points),
        visibility=np.array([_visibility(each) for each in points]),
        confidence=np.array([each["confidence"] for each in points], dtype=np.float64),
        size=(result["size"][0], result["size"][1]),
        category=category,
    )


def _visibility(point: Mapping[str, Any]) -> int:
    """Return COCO's number: points below the threshold count as hidden, so that they keep their place."""
    return ABSENT if point.get("absent") else VISIBLE if point["matched"] else HIDDEN
