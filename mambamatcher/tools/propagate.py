"""Transferring points from one or several annotated images to many others.

`propagate_to` does one target. `propagate` is the job over all of them, which can be stopped and resumed at any time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.datasets.faults import check_kind, check_number, check_numbers, naming
from mambamatcher.errors import InputError
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
from mambamatcher.jobs.engines import LOCAL, Engine
from mambamatcher.jobs.job import Job, run
from mambamatcher.jobs.journal import Result, write_lines
from mambamatcher.jobs.shards import line_shards, shard_job
from mambamatcher.jobs.source import Item, Source, changed, content_digest, content_of, images, read_ahead
from mambamatcher.matching.matcher import LoadedImage, Matcher, Readable
from mambamatcher.matching.portable import PortableMatcher
from mambamatcher.model.config import to_dict
from mambamatcher.tools.review import write_review

RESULTS, CSV, COCO, REVIEW = "points.jsonl", "points.csv", "points.coco.json", "review.html"
FORMATS = (CSV, COCO, REVIEW)  # written from the results
VERSION = 2  # of the results; the first did not name the content of the targets
GATHERED = 100_000  # targets up to which all results go to one file; beyond, shards are the result
AGREEMENT = 0.05  # of the target's longer side: how near to each other the answers of references count as one


@dataclass(frozen=True)
class Reference:
    """An annotated image, read once, with its visible points."""

    loaded: LoadedImage
    points: PointSet


@dataclass(frozen=True, kw_only=True)
class TransferredPoints:
    """Where the references' points lie in one target, in its pixels."""

    names: tuple[str, ...]
    points: Pixels
    confidence: Float[np.ndarray, " keypoint"]
    matched: Bool[np.ndarray, " keypoint"]
    size: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a run over many targets ended."""

    targets: int
    unreadable: int
    unmatched: int  # points


def read_references(matcher: Matcher, sources: Sequence[Path], points_file: Path) -> list[Reference]:
    """Read annotated images.

    Args:
        matcher: The matcher that will use them.
        sources: The images.
        points_file: Their points as JSON, CSV or COCO; with several images each is looked up by its file name.

    Raises:
        InputError: An image or the points cannot be used.
    """
    if len(sources) > 1 and None in read_annotations(points_file):
        raise InputError(
            f"{points_file} does not say which image its points are on, but {len(sources)} are given; use COCO, "
            "a CSV with a column 'image', or JSON with 'images'"
        )
    references = []
    for source in sources:
        loaded, points = matcher.read(source), read_points(points_file, source).visible()
        if not len(points.names):
            raise InputError(f"{points_file} has no visible point for {source.name}")
        check_points(points.points, loaded.image.size)
        references.append(Reference(loaded, points))
    return references


def propagate(
    matcher: Matcher,
    references: Sequence[Reference],
    targets: Source,
    out: Path,
    engine: Engine = LOCAL,
    overwrite: bool = False,
) -> Summary:
    """Transfer points to many images; the same call resumes after a stop.

    Up to `GATHERED` targets `out` gets JSON Lines, CSV, COCO and a page to review them by, beyond only shards of JSON
    Lines in its folder `parts`. A target that cannot be read has its reason in place of points.

    Args:
        matcher: Finds the points.
        references: The annotated images, from `read_references`.
        targets: The images to find the points in, from `mambamatcher.jobs.source.read_source`.
        out: The folder for the results.
        engine: Where the work is done.
        overwrite: Begin again instead of resuming.

    Returns:
        How many targets there were, and how many of them and of their points were not found.
    """
    portable = PortableMatcher(matcher, engine.device)
    header = describe_run(matcher, references, targets.origin)
    job: Job[Summary]
    if len(targets.items) > GATHERED:
        write = partial(_write_targets, portable, references)
        job = shard_job(out, targets.items, header, write, suffix=".jsonl", finish=_summarise, digest=content_of)
        # of a run over fewer targets
        job = replace(job, products=[*job.products, *(out / name for name in (RESULTS, *FORMATS))])
    else:
        job = Job(
            label="targets",
            inputs=targets.items,
            header=header,
            journal=out / RESULTS,
            key="image",
            work=partial(_propagate_items, portable, references),
            finish=partial(write_formats, out, targets),
            products=[*(out / name for name in FORMATS), *line_shards(out)],
            check=partial(check_results, out / RESULTS, targets.items),
        )
    return run(job, engine, overwrite)


def propagate_to(matcher: Matcher, references: Sequence[Reference], target: Readable) -> TransferredPoints:
    """Match every reference with one target and combine their answers, point by point."""
    loaded = matcher.read(target)
    names = tuple(dict.fromkeys(name for reference in references for name in reference.points.names))
    answers: dict[str, list[tuple[Float[np.ndarray, 2], float]]] = {name: [] for name in names}
    for reference in references:
        result = matcher.match(reference.loaded, loaded, reference.points.points)
        for name, point, confidence in zip(reference.points.names, result.points, result.confidence, strict=True):
            answers[name].append((point, float(confidence)))
    combined = [
        combine_answers(np.stack([point for point, _ in each]), np.array([sure for _, sure in each]), loaded.image.size)
        for each in answers.values()
    ]
    confidence = np.array([sure for _, sure in combined])
    return TransferredPoints(
        names=names,
        points=np.stack([point for point, _ in combined]),
        confidence=confidence,
        matched=confidence >= matcher.calibration.threshold,
        size=loaded.image.size,
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


def propagate_each(
    matcher: Matcher, references: Sequence[Reference], targets: Iterable[tuple[str, ImageLike]]
) -> Iterator[Result]:
    """Yield the result of each named target, in order; what was computed for a target is then evicted."""

    def read(image: ImageLike) -> tuple[str | None, LoadedImage | InputError]:
        content = content_digest(image)  # first, so that an image exchanged meanwhile is noticed later
        try:
            return content, matcher.read(image)
        except InputError as error:
            return content, error

    for name, (content, loaded) in read_ahead(lambda target: (target[0], read(target[1])), targets):
        if isinstance(loaded, InputError):
            yield {"image": name, "content": content, "error": str(loaded)}
            continue
        found = propagate_to(matcher, references, loaded)
        columns = (found.names, found.points.tolist(), found.confidence.tolist(), found.matched.tolist())
        points = [
            {"name": each, "x": round(x, 3), "y": round(y, 3), "confidence": round(confidence, 4), "matched": matched}
            for each, (x, y), confidence, matched in zip(*columns, strict=True)
        ]
        yield {"image": name, "content": content, "size": list(found.size), "points": points}
        matcher.evict(loaded)


def describe_run(matcher: Matcher, references: Sequence[Reference], targets: Path) -> dict[str, Any]:
    """Return what the results depend on, in the words of the message if a later run differs."""
    return {
        "version": VERSION,
        "model": {**matcher.config, "weights": matcher.runtime.weights_hash()},
        "calibration": to_dict(matcher.calibration),
        "set of references": [
            {"image": each.loaded.key, "names": each.points.names, "points": each.points.points.tolist()}
            for each in references
        ],
        "folder of targets": str(targets),
    }


def _propagate_items(
    portable: PortableMatcher, references: Sequence[Reference], items: Sequence[Item]
) -> Iterator[Result]:
    return propagate_each(portable.matcher, references, images(items))


def _write_targets(
    portable: PortableMatcher, references: Sequence[Reference], items: Sequence[Item], path: Path
) -> Counter[str]:
    """Write one shard, and count how its targets ended."""
    counts = Counter[str]()
    write_lines(path, _counted(_propagate_items(portable, references, items), counts))
    return counts


def write_formats(out: Path, targets: Source, results: list[Result]) -> Summary:
    """Write all results as CSV, COCO and the page to review them by."""
    counts = Counter[str]()
    found = {result["image"]: _point_set(result) for result in _counted(results, counts) if "error" not in result}
    write_points(out / CSV, found, overwrite=True)
    write_points(out / COCO, found, overwrite=True)
    write_review(out / REVIEW, targets.find, results)
    return _summarise(counts)


def _counted(results: Iterable[Result], counts: Counter[str]) -> Iterator[Result]:
    for result in results:
        unmatched = sum(not point["matched"] for point in result.get("points", ()))
        counts.update(targets=1, unreadable=int("error" in result), unmatched=unmatched)
        yield result


def _summarise(counts: Counter[str]) -> Summary:
    return Summary(targets=counts["targets"], unreadable=counts["unreadable"], unmatched=counts["unmatched"])


def check_results(journal: Path, items: Sequence[Item], results: Sequence[Result]) -> Iterator[Result]:
    """Yield results whose targets have not changed, and refuse the first that is not as `propagate_each` makes it."""
    outdated = changed(items, {result["image"]: result.get("content") for result in results})
    for result in results:
        if result["image"] in outdated:
            continue
        with naming(f"{journal}: the result of {result['image']}"):
            if "error" in result:
                check_kind(result["error"], str, "error")
            else:
                check_numbers(result["size"], 2, "size")
                if not check_kind(result["points"], list, "points"):
                    raise InputError("it has no points")
                for point in result["points"]:
                    check_kind(point["name"], str, "name")
                    for key in ("x", "y", "confidence"):
                        check_number(point[key])
                    if not isinstance(point["matched"], bool):
                        raise InputError(f"matched must be true or false, got {point['matched']!r:.60}")
        yield result


def _point_set(result: Result) -> PointSet:
    points = result["points"]
    return PointSet(
        points=np.array([(each["x"], each["y"]) for each in points], dtype=np.float64),
        names=tuple(each["name"] for each in points),
        visibility=np.array([VISIBLE if each["matched"] else ABSENT for each in points]),
        confidence=np.array([each["confidence"] for each in points], dtype=np.float64),
        size=(result["size"][0], result["size"][1]),
    )
