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

import numpy as np

from mambamatcher.datasets.faults import check_kind, check_number, check_numbers, naming
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import remove_files
from mambamatcher.io.images import ImageLike
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.engines import LOCAL, Engine, LocalEngine
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
    check_formats,
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
from mambamatcher.tools.video_outputs import VIDEO_FORMATS, write_video_formats

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
    damage: str | None = None  # what is wrong with a video that could be read in part


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
    """Transfer points to many images, or to frames of a video; the same call resumes after a stop.

    Up to `GATHERED` targets `out` gets JSON Lines, CSV, COCO and a page to review them by, beyond only shards of JSON
    Lines in its folder `parts`. A target that cannot be read has its reason in place of points. Of a video there are
    also DeepLabCut's CSV, an overlay video and a plot.

    Where `out` has a file `corrections.json`, its images are kept as corrected and are references for the others.
    Where that file has changed since the last call, this is a new round: the others are computed again.

    Args:
        matcher: Finds the points.
        references: The annotated images, from `read_references`.
        targets: The images to find the points in, from `mambamatcher.jobs.source.read_source` or `read_video`.
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
    is_video = targets.frames is not None
    if is_video:
        check_engine(targets.origin, engine)
        if (count := len(targets.items)) > GATHERED:
            raise InputError(
                f"{count:,} frames of {targets.origin} are selected, and a run takes at most {GATHERED:,}; select "
                "fewer with --every, --from and --to"
            )
    drawn = VIDEO_FORMATS if is_video else ()
    written, outputs = WrittenFiles(out), outputs or Outputs()
    check_unchanged(out, written, corrections, outputs, drawn)
    agreed = read_round(out, references, targets, corrections)
    if agreed.images and len(targets.items) > GATHERED:
        raise InputError(f"corrections are for up to {GATHERED:,} targets, and there are {len(targets.items):,}")
    if outputs.formats and len(targets.items) > GATHERED:
        raise InputError(f"formats are written for up to {GATHERED:,} targets, and there are {len(targets.items):,}")
    if len(targets.items) <= GATHERED:
        check_formats(targets, references, outputs)
    everything = [*references, *further_references(matcher, targets, agreed)]
    header = describe_run(matcher, references, targets, digest_of(agreed))
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
        if is_video:
            write_video_formats(written, targets, results, matcher.calibration.threshold, outputs.smooth)
        written.add(RESULTS)
        counts = Counter[str]()
        for result in results:
            counts.update(_count(result))
        before = read_results(out, PREVIOUS)
        moved, following = count_moved(before, results), next_to_correct(results)
        return replace(_summarise(counts), moved=moved, next=following, damage=targets.damage)

    further = [name for name in written.names if name not in (RESULTS, REFERENCES)]
    products = [*FORMATS, *outputs.files, *drawn, *further]
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
    matcher = matcher.for_many()
    names = {name for each in references for name in each.points.names}
    described = np.stack([describe_image(matcher.encode(each.loaded)) for each in references])
    at_once = matcher.runtime.at_once
    corrections = corrections or {}
    kept = {name for name, each in corrections.items() if names <= each.points.keys()}  # nothing of these is computed

    def read(target: tuple[str, ImageLike]) -> tuple[str, str | None, LoadedImage | InputError]:
        name, image = target
        content = content_digest(image)  # first, so that an image exchanged meanwhile is noticed later
        try:
            loaded = matcher.read(image)
        except InputError as error:
            return name, content, error
        return name, content, loaded if at_once == 1 or name in kept else matcher.read_encoded(loaded)

    for name, content, loaded in read_ahead(read, targets, at_once):
        if isinstance(loaded, InputError):
            yield {"image": name, "content": content, "error": str(loaded)}
            continue
        result: Result = {"image": name, "content": content, "size": list(loaded.image.size), "points": []}
        if name not in kept:
            # a corrected image would agree with itself
            others = [each for each in references if each.loaded.key != loaded.key] or list(references)
            result["points"] = _points(matcher, others, loaded)
            similar = (described @ describe_image(matcher.encode(loaded))).max()
            result["distance"] = round(max(0.0, 1 - float(similar)), 4)
        yield keep_corrected(result, corrections.get(name))
        if all(each.loaded.key != loaded.key for each in references):
            matcher.evict(loaded)


def check_engine(video: Path, engine: Engine) -> None:
    """Refuse to share the frames of a video between workers, each of which would have to decode all before its own."""
    if not isinstance(engine, LocalEngine):
        raise InputError(f"{video} is a video, which is decoded in order in this process; leave out --engine")


def describe_run(
    matcher: Matcher, references: Sequence[Reference], targets: Source, corrections: str | None
) -> dict[str, Any]:
    """Return what the results depend on, in the words of the message if a later run differs."""
    calibration = to_dict(matcher.calibration)
    frames = {} if targets.frames is None else {"frames": targets.frames.to_json()}
    return {
        "version": VERSION,
        "model": {**matcher.config, "weights": matcher.runtime.weights_hash()},
        "threshold": calibration.pop("threshold"),
        "calibration": calibration,
        "set of references": [
            {"image": each.loaded.key, "names": each.points.names, "points": each.points.points.tolist()}
            for each in references
        ],
        "folder of targets": str(targets.origin),
        **frames,
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
    results = propagate_each(portable.matcher, references, images(items), corrections)
    return _name_frames(items, results) if items and items[0].time is not None else results


def _name_frames(items: Sequence[Item], results: Iterable[Result]) -> Iterator[Result]:
    """Add to the results of frames their numbers and times; their content is that of the video."""
    content = content_digest(items[0].place)
    for item, result in zip(items, results, strict=True):
        yield {**result, "content": content, "frame": item.row, "time": item.time}


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
                if any(item.time is not None for item in items[:1]):
                    check_numbers([result["frame"], result["time"]], 2, "frame and time")
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
