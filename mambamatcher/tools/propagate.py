"""Carrying points from one or several annotated pictures to a whole folder of others.

`carry_points` does one target and knows of nothing else, so that any engine can call it for many at once; `propagate`
does a folder, one after the other, and can be stopped and gone on with at any time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.errors import InputError
from mambamatcher.evaluation.predict import read_ahead
from mambamatcher.evaluation.predictors import weights_hash
from mambamatcher.io.atomic import make_folder
from mambamatcher.io.images import ImageLike
from mambamatcher.io.points import (
    ABSENT,
    VISIBLE,
    Pixels,
    PointSet,
    check_points,
    read_annotations,
    read_points,
    write_points,
)
from mambamatcher.jobs.journal import Journal
from mambamatcher.jobs.progress import track
from mambamatcher.jobs.source import list_targets
from mambamatcher.matching.matcher import Matcher, Picture, Readable
from mambamatcher.model.config import to_dict
from mambamatcher.tools.review import Find, write_review

RESULTS, CSV, COCO, REVIEW = "points.jsonl", "points.csv", "points.coco.json", "review.html"
FORMATS = (CSV, COCO, REVIEW)  # written from the results
AGREEMENT = 0.05  # of the target's longer side: how near to each other the answers of references count as one


@dataclass(frozen=True)
class Reference:
    """An annotated picture, read once, with the points that can be seen in it."""

    picture: Picture
    points: PointSet


@dataclass(frozen=True, kw_only=True)
class Carried:
    """Where the references' points lie in one target, in its pixels."""

    names: tuple[str, ...]
    points: Pixels
    confidence: Float[np.ndarray, " keypoint"]
    matched: Bool[np.ndarray, " keypoint"]
    size: tuple[int, int]


def read_references(matcher: Matcher, sources: Sequence[Path], points_file: Path) -> list[Reference]:
    """Read annotated pictures; a file with the points of several is asked for each by its file name."""
    if len(sources) > 1 and None in read_annotations(points_file):
        raise InputError(
            f"{points_file} does not say which picture its points are on, but {len(sources)} are given; use COCO, "
            "a CSV with a column 'image', or JSON with 'images'"
        )
    references = []
    for source in sources:
        picture, points = matcher.read(source), read_points(points_file, source).visible()
        if not len(points.names):
            raise InputError(f"{points_file} has no visible point for {source.name}")
        check_points(points.points, picture.image.size)
        references.append(Reference(picture, points))
    return references


def carry_points(matcher: Matcher, references: Sequence[Reference], target: Readable) -> Carried:
    """Match every reference with the target and combine what they say, point by point."""
    picture = matcher.read(target)
    names = tuple(dict.fromkeys(name for reference in references for name in reference.points.names))
    answers: dict[str, list[tuple[Float[np.ndarray, 2], float]]] = {name: [] for name in names}
    for reference in references:
        result = matcher.match(reference.picture, picture, reference.points.points)
        for name, point, confidence in zip(reference.points.names, result.points, result.confidence, strict=True):
            answers[name].append((point, float(confidence)))
    combined = [
        combine_answers(
            np.stack([point for point, _ in each]), np.array([sure for _, sure in each]), picture.image.size
        )
        for each in answers.values()
    ]
    confidence = np.array([sure for _, sure in combined])
    return Carried(
        names=names,
        points=np.stack([point for point, _ in combined]),
        confidence=confidence,
        matched=confidence >= matcher.calibration.threshold,
        size=picture.image.size,
    )


def combine_answers(
    points: Float[np.ndarray, "reference 2"], confidence: Float[np.ndarray, " reference"], size: tuple[int, int]
) -> tuple[Float[np.ndarray, "2"], float]:
    """Let the references vote on one point: the place with the most confidence around it wins.

    A mean would lie between two different answers, where nobody put the point; the most confident alone would ignore
    that others agree on another place. So each answer collects the confidence of those near it, and the winner is
    refined to their weighted mean. Its confidence is the mean of its own and its supporters', doubt of those that
    disagree counted in, each weighted by its confidence: a reference that has no idea does not spoil a sure one.
    """
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1) / (AGREEMENT * max(size))
    nearness = np.exp(-0.5 * distance**2)
    confidence = confidence.clip(1e-9)  # so that nothing is divided by zero
    winner = int(np.argmax(nearness @ confidence))
    votes = nearness[winner] * confidence
    return votes @ points / votes.sum(), float(votes @ confidence / confidence.sum())


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a run over a folder ended."""

    targets: int
    unreadable: int
    unmatched: int  # points


def propagate(
    matcher: Matcher, references: Sequence[Reference], targets: Path, out: Path, overwrite: bool = False
) -> Summary:
    """Carry points to every picture of a folder, and write JSON Lines, CSV, COCO and a page to review them by.

    The JSON Lines are added to as targets are done; the same call goes on after a stop. A target that cannot be read
    has its reason in place of points.
    """
    wanted = list_targets(targets)
    make_folder(out)
    refuse_formats(out, overwrite)
    with Journal(out / RESULTS, describe_run(matcher, references, targets), "image", overwrite) as journal:
        left = [(name, targets.absolute() / name) for name in wanted if name not in journal.done]
        for line in track(carry_each(matcher, references, left), len(left), "targets"):
            journal.add(line)
        lines = [journal.done[name] for name in wanted]
    write_formats(out, lambda names: ((name, targets / name) for name in names), lines)
    return summarise(lines)


def carry_each(
    matcher: Matcher, references: Sequence[Reference], targets: Iterable[tuple[str, ImageLike]]
) -> Iterator[dict[str, Any]]:
    """Yield the line of each named target, in order; what was computed of a target is then forgotten."""
    for name, picture in read_each(matcher, targets):
        yield {"image": name, **_outcome(matcher, references, picture)}
        if not isinstance(picture, InputError):
            matcher.evict(picture)


def read_each(matcher: Matcher, images: Iterable[tuple[str, ImageLike]]) -> Iterator[tuple[str, Picture | InputError]]:
    """Yield each named picture, or why it cannot be read; the next ones are read meanwhile."""

    def read(image: tuple[str, ImageLike]) -> tuple[str, Picture | InputError]:
        try:
            return image[0], matcher.read(image[1])
        except InputError as error:
            return image[0], error

    return read_ahead(read, images)


def refuse_formats(out: Path, overwrite: bool) -> None:
    """Stop where files are that no run can have written: each writes its JSON Lines first."""
    if not (out / RESULTS).exists() and not overwrite:
        for name in FORMATS:
            if (out / name).exists():
                raise InputError(f"{out / name} exists already; choose another folder or ask to overwrite it")


def write_formats(out: Path, find: Find, lines: Sequence[dict[str, Any]]) -> None:
    """Write lines as CSV, COCO and the page to review them by."""
    found = {line["image"]: _point_set(line) for line in lines if "error" not in line}
    write_points(out / CSV, found, overwrite=True)
    write_points(out / COCO, found, overwrite=True)
    write_review(out / REVIEW, find, lines)


def summarise(lines: Iterable[dict[str, Any]]) -> Summary:
    """Count how the targets ended."""
    targets = unreadable = unmatched = 0
    for line in lines:
        targets += 1
        unreadable += "error" in line
        unmatched += sum(not point["matched"] for point in line.get("points", ()))
    return Summary(targets=targets, unreadable=unreadable, unmatched=unmatched)


def _outcome(matcher: Matcher, references: Sequence[Reference], read: Picture | InputError) -> dict[str, Any]:
    if isinstance(read, InputError):
        return {"error": str(read)}
    carried = carry_points(matcher, references, read)
    return {
        "size": list(carried.size),
        "points": [
            {"name": name, "x": round(x, 3), "y": round(y, 3), "confidence": round(sure, 4), "matched": matched}
            for name, (x, y), sure, matched in zip(
                carried.names,
                carried.points.tolist(),
                carried.confidence.tolist(),
                carried.matched.tolist(),
                strict=True,
            )
        ],
    }


def describe_run(matcher: Matcher, references: Sequence[Reference], targets: Path) -> dict[str, Any]:
    """Say what the results depend on, in the words of the message if a later run differs."""
    return {
        "model": {**to_dict(matcher.config), "weights": weights_hash(matcher.model)},
        "calibration": to_dict(matcher.calibration),
        "set of references": [
            {"picture": each.picture.key, "names": each.points.names, "points": each.points.points.tolist()}
            for each in references
        ],
        "folder of targets": str(targets.absolute()),
    }


def _point_set(line: dict[str, Any]) -> PointSet:
    points = line["points"]
    return PointSet(
        points=np.array([(each["x"], each["y"]) for each in points], dtype=np.float64),
        names=tuple(each["name"] for each in points),
        visibility=np.array([VISIBLE if each["matched"] else ABSENT for each in points]),
        confidence=np.array([each["confidence"] for each in points], dtype=np.float64),
        size=(line["size"][0], line["size"][1]),
    )
