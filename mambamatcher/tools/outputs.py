"""The files of a run of `propagate`, and the promise that none of them is replaced after somebody changed it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json, write_atomically
from mambamatcher.io.points import ABSENT, HIDDEN, VISIBLE, PointSet, format_points
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.source import Source
from mambamatcher.tools.references import Reference
from mambamatcher.tools.review import make_review

RESULTS, CSV, COCO, REVIEW = "points.jsonl", "points.csv", "points.coco.json", "review.html"
EDITABLE = (CSV, COCO)  # whose changes can be taken in
FORMATS = (CSV, COCO, REVIEW)  # written from the results
REFERENCES = "references.json"  # the references with their paths, as a file of points
PREVIOUS = "previous.jsonl"  # the results of the round before
ROUND = ("threshold", "corrections")  # what may differ between the rounds of a run


def check_unchanged(out: Path, written: WrittenFiles, formats: Sequence[str], taken_in: Path | None) -> None:
    """Refuse a folder with a file that was changed since it was written, but for one whose changes are taken in.

    Args:
        out: The folder.
        written: Its record.
        formats: The files that are written from the results.
        taken_in: A file whose changes are taken in as corrections.
    """
    for name in (RESULTS, *formats, REFERENCES):
        ours = written.has(name) or (name in formats and (out / RESULTS).exists())
        if ours and written.is_changed(name) and not (name in EDITABLE and _is_same(out / name, taken_in)):
            said = "was changed since it was written" if written.has(name) else "was not written by this program"
            take = f"take its changes in with --corrections {out / name}, or " if name in EDITABLE else ""
            raise InputError(f"{out / name} {said} and is not replaced; {take}use another folder")


def keep_aside(out: Path, written: WrittenFiles, taken_in: Path) -> None:
    """Rename a changed file of the run whose changes were taken in; it may hold more than points."""
    for name in EDITABLE:
        if _is_same(out / name, taken_in) and written.is_changed(name):
            number = 1
            while (aside := out / f"edited-{number}-{name}").exists():
                number += 1
            try:
                (out / name).rename(aside)
            except OSError as error:
                raise InputError(f"cannot rename {out / name}: {error.strerror}") from error
            written.forget([name])


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
    written: WrittenFiles, targets: Source, results: Sequence[Result], references: Sequence[Reference] = ()
) -> None:
    """Write all results as CSV, COCO and the page to review them by."""
    found = {result["image"]: point_set(result) for result in results if "error" not in result}
    for name in (CSV, COCO):  # file names that are not UTF-8 are written as the bytes they are
        written.write(name, format_points(name, found), errors="surrogateescape")
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


def _is_same(path: Path, other: Path | None) -> bool:
    return other is not None and path.absolute() == other.absolute()


def _fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def point_set(result: Result) -> PointSet:
    """Return the points of a result as files of points hold them."""
    points = result["points"]
    return PointSet(
        points=np.array([(each["x"], each["y"]) for each in points], dtype=np.float64),
        names=tuple(each["name"] for each in points),
        visibility=np.array([_visibility(each) for each in points]),
        confidence=np.array([each["confidence"] for each in points], dtype=np.float64),
        size=(result["size"][0], result["size"][1]),
    )


def _visibility(point: Mapping[str, Any]) -> int:
    """Return COCO's number: points below the threshold count as hidden, so that they keep their place."""
    return ABSENT if point.get("absent") else VISIBLE if point["matched"] else HIDDEN
