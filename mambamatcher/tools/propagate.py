"""Transferring points from one or several annotated images to many others.

`propagate` is a job that can be stopped and resumed at any time. Corrections of its results make it a new round: the
corrected images are kept as they are, become references themselves, and the others are computed again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mambamatcher.datasets.faults import check_kind, check_number, check_numbers, naming
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import remove_files
from mambamatcher.io.images import ImageLike
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.engines import LOCAL, Engine
from mambamatcher.jobs.job import Job, run
from mambamatcher.jobs.journal import Result, write_lines
from mambamatcher.jobs.shards import line_shards, shard_job
from mambamatcher.jobs.source import Item, Source, changed, content_digest, content_of, images, read_ahead
from mambamatcher.matching.matcher import LoadedImage, Matcher
from mambamatcher.matching.portable import PortableMatcher
from mambamatcher.model.config import to_dict
from mambamatcher.tools.corrections import Correction
from mambamatcher.tools.outputs import (
    FORMATS,
    PREVIOUS,
    REFERENCES,
    RESULTS,
    Outputs,
    begin_round,
    check_unchanged,
    keep_aside,
    write_formats,
    write_references,
)
from mambamatcher.tools.references import Reference, propagate_to, read_references
from mambamatcher.tools.rounds import (
    count_moved,
    describe_image,
    digest_of,
    further_references,
    keep_corrected,
    next_to_correct,
    read_results,
    read_round,
    save_round,
)

__all__ = ["Reference", "Summary", "propagate", "propagate_each", "propagate_to", "read_references"]

VERSION = 3  # of the results; the first did not name the content of the targets, the second no distances
GATHERED = 100_000  # targets up to which all results go to one file; beyond, shards are the result
FEATURES = "cache"  # folder within OUT for the features of the targets, for the next round
FEATURES_BYTES = 1 << 30  # limit of that folder; the features of more targets are computed in every round


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a run over many targets ended."""

    targets: int
    unreadable: int
    unmatched: int  # points below the threshold
    kept: int = 0  # targets with corrections
    moved: Mapping[str, int] = field(default_factory=dict)  # points of each target that moved since the last round
    next: str | None = None  # the target whose correction promises most


def propagate(
    matcher: Matcher,
    references: Sequence[Reference],
    targets: Source,
    out: Path,
    engine: Engine = LOCAL,
    overwrite: bool = False,
    corrections: Path | None = None,
    outputs: Outputs | None = None,
) -> Summary:
    """Transfer points to many images; the same call resumes after a stop.

    Up to `GATHERED` targets `out` gets JSON Lines, CSV, COCO and a page to review them by, beyond only shards of JSON
    Lines in its folder `parts`. A target that cannot be read has its reason in place of points.

    Where `out` has a file `corrections.json`, its images are kept as corrected and are references for the others.
    Where that file has changed since the last call, this is a new round: the others are computed again.

    Args:
        matcher: Finds the points.
        references: The annotated images, from `read_references`.
        targets: The images to find the points in, from `mambamatcher.jobs.source.read_source`.
        out: The folder for the results.
        engine: Where the work is done.
        overwrite: Begin again instead of resuming; corrections stay.
        corrections: Corrections to add to those of `out`: a file of them, or a changed file of points from `out`.
        outputs: Further formats to write.

    Returns:
        How many targets there were, how many of them and of their points were not found, what moved since the last
        round, and which target to correct next.

    Raises:
        InputError: `out` has results of another run or files that were changed since, or corrections cannot be used.
    """
    written, outputs = WrittenFiles(out), outputs or Outputs()
    check_unchanged(out, written, corrections, outputs)
    agreed = read_round(out, references, targets, corrections)
    if agreed.images and len(targets.items) > GATHERED:
        raise InputError(f"corrections are for up to {GATHERED:,} targets, and there are {len(targets.items):,}")
    if outputs.formats and len(targets.items) > GATHERED:
        raise InputError(f"formats are written for up to {GATHERED:,} targets, and there are {len(targets.items):,}")
    everything = [*references, *further_references(matcher, targets, agreed)]
    header = describe_run(matcher, references, targets.origin, digest_of(agreed))
    if corrections is not None:
        save_round(out, agreed)
        keep_aside(out, written, corrections)
    if len(targets.items) > GATHERED:
        write = partial(_write_targets, PortableMatcher(matcher, engine.device), references)
        job = shard_job(out, targets.items, header, write, suffix=".jsonl", finish=_summarise, digest=content_of)
        # of a run over fewer targets
        return run(
            replace(job, products=[*job.products, *(out / name for name in (RESULTS, *FORMATS))]), engine, overwrite
        )
    if overwrite:
        remove_files(out / PREVIOUS)
    overwrite = begin_round(out, header) or overwrite
    written.forget([RESULTS])  # it may grow

    def finish(results: list[Result]) -> Summary:
        write_formats(written, targets, results, references, outputs)
        write_references(written, references)
        written.add(RESULTS)
        counts = Counter[str]()
        for result in results:
            counts.update(_count(result))
        before = read_results(out, PREVIOUS)
        return replace(_summarise(counts), moved=count_moved(before, results), next=next_to_correct(results))

    further = [name for name in written.names if name not in (RESULTS, REFERENCES)]
    products = [*FORMATS, *outputs.files, *further]
    keeps = len(targets.items) * matcher.encode(references[0].loaded).nbytes <= FEATURES_BYTES
    portable = PortableMatcher(matcher, engine.device, out.absolute() / FEATURES if keeps else None)
    job = Job(
        label="targets",
        inputs=targets.items,
        header=header,
        journal=out / RESULTS,
        key="image",
        work=partial(_propagate_items, portable, everything, agreed.images),
        finish=finish,
        products=[*(out / name for name in dict.fromkeys(products)), *line_shards(out)],
        check=partial(check_results, out / RESULTS, targets.items),
    )
    return run(job, engine, overwrite)


def propagate_each(
    matcher: Matcher,
    references: Sequence[Reference],
    targets: Iterable[tuple[str, ImageLike]],
    corrections: Mapping[str, Correction] | None = None,
) -> Iterator[Result]:
    """Yield the result of each named target, in order; what was computed for a target is then evicted.

    Args:
        matcher: Finds the points.
        references: The annotated images.
        targets: The name of each target, and its image.
        corrections: Targets that are kept as corrected. Points that these leave open are computed.
    """
    names = {name for each in references for name in each.points.names}
    described = [describe_image(matcher.encode(each.loaded)) for each in references]

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
        result: Result = {"image": name, "content": content, "size": list(loaded.image.size), "points": []}
        correction = (corrections or {}).get(name)
        if correction is None or names - correction.points.keys():
            # a corrected image would agree with itself
            others = [each for each in references if each.loaded.key != loaded.key] or list(references)
            result["points"] = _points(matcher, others, loaded)
            similar = max(float(each @ describe_image(matcher.encode(loaded))) for each in described)
            result["distance"] = round(max(0.0, 1 - similar), 4)
        yield keep_corrected(result, correction)
        if all(each.loaded.key != loaded.key for each in references):
            matcher.evict(loaded)


def describe_run(
    matcher: Matcher, references: Sequence[Reference], targets: Path, corrections: str | None
) -> dict[str, Any]:
    """Return what the results depend on, in the words of the message if a later run differs."""
    calibration = to_dict(matcher.calibration)
    return {
        "version": VERSION,
        "model": {**matcher.config, "weights": matcher.runtime.weights_hash()},
        "threshold": calibration.pop("threshold"),
        "calibration": calibration,
        "set of references": [
            {"image": each.loaded.key, "names": each.points.names, "points": each.points.points.tolist()}
            for each in references
        ],
        "folder of targets": str(targets),
        "corrections": corrections,
    }


def _points(matcher: Matcher, references: Sequence[Reference], loaded: LoadedImage) -> list[dict[str, Any]]:
    found = propagate_to(matcher, references, loaded)
    columns = (found.names, found.points.tolist(), found.confidence.tolist(), found.matched.tolist())
    return [
        {"name": each, "x": round(x, 3), "y": round(y, 3), "confidence": round(confidence, 4), "matched": matched}
        for each, (x, y), confidence, matched in zip(*columns, strict=True)
    ]


def _propagate_items(
    portable: PortableMatcher,
    references: Sequence[Reference],
    corrections: Mapping[str, Correction],
    items: Sequence[Item],
) -> Iterator[Result]:
    return propagate_each(portable.matcher, references, images(items), corrections)


def _write_targets(
    portable: PortableMatcher, references: Sequence[Reference], items: Sequence[Item], path: Path
) -> Counter[str]:
    """Write one shard, and count how its targets ended."""
    counts = Counter[str]()

    def counted() -> Iterator[Result]:
        for result in _propagate_items(portable, references, {}, items):
            counts.update(_count(result))
            yield result

    write_lines(path, counted())
    return counts


def _count(result: Result) -> dict[str, int]:
    unmatched = sum(not point["matched"] and not point.get("absent") for point in result.get("points", ()))
    return {"targets": 1, "unreadable": int("error" in result), "unmatched": unmatched, "kept": int("status" in result)}


def _summarise(counts: Counter[str]) -> Summary:
    return Summary(
        targets=counts["targets"],
        unreadable=counts["unreadable"],
        unmatched=counts["unmatched"],
        kept=counts["kept"],
    )


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
                if "status" not in result:
                    check_number(result["distance"])
                if not check_kind(result["points"], list, "points"):
                    raise InputError("it has no points")
                for point in result["points"]:
                    check_kind(point["name"], str, "name")
                    for key in ("x", "y", "confidence"):
                        check_number(point[key])
                    if not isinstance(point["matched"], bool):
                        raise InputError(f"matched must be true or false, got {point['matched']!r:.60}")
        yield result
