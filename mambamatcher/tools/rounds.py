"""Correct and repeat: corrected images become references, and a round says what changed and what to correct next."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.faults import naming
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import make_folder, parse_json
from mambamatcher.io.points import (
    ABSENT,
    HIDDEN,
    VISIBLE,
    ImageNames,
    PointSet,
    check_points,
    make_points,
    one_per_image,
    read_objects,
)
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.source import Source
from mambamatcher.matching.matcher import Matcher
from mambamatcher.matching.runtime import Encoded
from mambamatcher.tools.corrections import (
    FILE,
    Annotated,
    Correction,
    Corrections,
    Place,
    Status,
    annotated,
    is_corrections,
    read_corrections,
    to_json,
    write_corrections,
)
from mambamatcher.tools.references import AGREEMENT, Reference
from mambamatcher.tools.review import doubt

MOVED = 0.01  # pixels: annotation tools round what they did not change


def read_round(out: Path, references: Sequence[Reference], targets: Source, given: Path | None = None) -> Corrections:
    """Return the corrections of a run: those of OUT/corrections.json, and over them those of a given file.

    Args:
        out: The folder of the run.
        references: Its references.
        targets: Its images.
        given: A file of corrections, or points that `propagate` wrote and somebody changed; an
            image of these counts as corrected if one of its points was changed.

    Raises:
        InputError: A file is damaged, was made for other references, or names images or points there are not.
    """
    names = {item.name for item in targets.items}
    made_for = tuple(annotated(each.loaded.image, each.points) for each in references)
    images: dict[str, Correction] = {}
    if (out / FILE).exists():
        images.update(read_corrections(out / FILE, made_for, names).images)
    if given is not None:
        if _holds_corrections(given):
            images.update(read_corrections(given, made_for, names).images)
        else:
            images.update(read_edits(given, made_for, names, out))
    return Corrections(made_for, images)


def save_round(out: Path, corrections: Corrections) -> None:
    """Write OUT/corrections.json, unless there is nothing to write."""
    if corrections.images:
        make_folder(out)
        write_corrections(out / FILE, corrections)


def digest_of(corrections: Corrections) -> str | None:
    """Return a name for what was corrected; None where nothing was."""
    content = json.dumps(to_json(corrections)["images"], sort_keys=True)
    return blake2b(content.encode(), digest_size=8).hexdigest() if corrections.images else None


def further_references(matcher: Matcher, targets: Source, corrections: Corrections) -> list[Reference]:
    """Read the corrected images that show a point, to be references too.

    Raises:
        InputError: An image cannot be read, or a corrected point lies outside it.
    """
    shown = {
        image: {name: place for name, place in each.points.items() if place is not None}
        for image, each in corrections.images.items()
    }
    found = []
    for image, file in targets.find({image for image, points in shown.items() if points}):
        with naming(f"the corrections, images[{image!r}]"):
            loaded = matcher.read(file)
            points = make_points(list(shown[image].values()), list(shown[image]))
            check_points(points.points, loaded.image.size)
        found.append(Reference(loaded, points))
    return found


def read_edits(
    path: Path, references: Sequence[Annotated], targets: Collection[str], out: Path
) -> dict[str, Correction]:
    """Compare a file of points with the results of the run, and return the images that somebody changed.

    Of such an image a visible point is taken as it is in the file, and a point that is absent or was removed is absent
    there. A hidden one, which is how a point below the threshold is written, counts only where it was moved.
    """
    results, known_images, found = read_results(out), ImageNames(targets), read_objects(path)
    with naming(path):
        by_image = one_per_image(found)
    names = list(dict.fromkeys(name for each in references for name in each.points))
    edits = {}
    for given, points in by_image.items():
        if given is None:
            raise InputError(f"{path} does not say which images its points are on")
        image = known_images.find(given)
        if image is None:
            raise InputError(f"{path} names {given!r}, which is not among the {len(targets)} targets")
        if image in edits:
            raise InputError(f"{path}: two of its images are {image!r} among the targets")
        if unknown := [name for name in points.names if name not in names]:
            known = ", ".join(map(repr, names))
            raise InputError(f"{path}: {image!r} has a point {unknown[0]!r}, but the reference has {known}")
        before = {name: state for name, state in _states(results.get(image, {})).items() if name in names}
        now = _states_of(points, before, found.has_visibility)
        moved = {name for name in {**before, **now} if _differs(before.get(name), now.get(name))}
        if moved:
            edits[image] = Correction(
                Status.corrected,
                {
                    name: None if now[name][0] == ABSENT else now[name][1]
                    for name in now
                    if now[name][0] != HIDDEN or name in moved
                },
            )
    return edits


def read_results(out: Path, name: str = "points.jsonl") -> dict[str, Result]:
    """Return the results of a run by image; what cannot be read is left out."""
    try:
        lines = (out / name).read_bytes().split(b"\n")[1:]
    except OSError:
        return {}
    results = {}
    for line in lines:
        try:
            content = parse_json(line)
            results[content["image"]] = content
        except (ValueError, TypeError, LookupError):
            continue
    return results


def keep_corrected(result: Result, correction: Correction | None) -> Result:
    """Return a result with the corrected points in place of those found."""
    if correction is None or "error" in result:
        return result
    found = {point["name"]: point for point in result["points"]}
    for name, place in correction.points.items():
        x, y = place or (0.0, 0.0)
        found[name] = {"name": name, "x": x, "y": y, "confidence": 1.0, "matched": place is not None}
        if place is None:
            found[name]["absent"] = True
    return {**result, "status": correction.status.value, "points": list(found.values())}


def describe_image(encoded: Encoded) -> Float[np.ndarray, " entry"]:
    """Describe an image by the mean of its features over all positions; its length is 1."""
    features = encoded.reshape(*encoded.shape[:2], -1)
    norms = np.sqrt(np.einsum("lcp,lcp->lp", features, features)).clip(min=1e-12)
    mean = (features @ (1 / norms)[..., None]).ravel()  # the sum of features of length 1, without making them
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def expected_gain(result: Mapping[str, Any]) -> float:
    """Return what correcting an image promises: its doubt, weighted by its distance from the nearest reference."""
    return 0.0 if "error" in result or "status" in result else doubt(result) * result["distance"]


def next_to_correct(results: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the image whose correction promises most; None where every image is corrected or unreadable."""
    left = [result for result in results if "error" not in result and "status" not in result]
    return max(left, key=expected_gain)["image"] if left else None


def count_moved(before: Mapping[str, Result], results: Iterable[Result]) -> dict[str, int]:
    """Count in each image the points that are elsewhere than before, by more than `AGREEMENT` of its longer side."""
    counts = {}
    for result in results:
        old = {point["name"]: point for point in before.get(result["image"], {}).get("points", ())}
        if not old or "error" in result or "status" in result:  # a corrected one was moved by hand
            continue
        near = AGREEMENT * max(result["size"])
        moved = sum(
            np.hypot(point["x"] - old[point["name"]]["x"], point["y"] - old[point["name"]]["y"]) > near
            for point in result["points"]
            if point["name"] in old and not point.get("absent")
        )
        if moved:
            counts[result["image"]] = int(moved)
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _holds_corrections(path: Path) -> bool:
    """Return whether a file says that it holds corrections; damaged JSON is left to their reader to report."""
    if path.name == FILE:
        return True
    if path.is_dir() or path.suffix.lower() != ".json":
        return False
    try:
        with path.open("rb") as file:
            is_array = file.read(100).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")  # tasks, and perhaps very many
        return not is_array and is_corrections(parse_json(path.read_bytes()))
    except (OSError, ValueError):
        return True


State = tuple[int, Place]  # visibility and place


def _states(result: Mapping[str, Any]) -> dict[str, State]:
    """Return the points of a result as its files show them."""
    return {
        point["name"]: (
            ABSENT if point.get("absent") else VISIBLE if point["matched"] else HIDDEN,
            (point["x"], point["y"]),
        )
        for point in result.get("points", ())
    }


def _states_of(points: PointSet, before: Mapping[str, State], has_visibility: bool) -> dict[str, State]:
    """Return the points of a file; those that it no longer has are absent.

    Where the file cannot tell hidden points from visible ones, a point that was not moved is as it was.
    """
    found = {
        name: (int(seen), (float(x), float(y)))
        for name, seen, (x, y) in zip(points.names, points.visibility, points.points, strict=True)
    }
    if not has_visibility:
        for name, (seen, place) in found.items():
            if seen == VISIBLE and name in before and not _differs(before[name], (before[name][0], place)):
                found[name] = before[name]
    return {**dict.fromkeys(before, (ABSENT, (0.0, 0.0))), **found}


def _differs(before: State | None, now: State | None) -> bool:
    if before is None or now is None or before[0] != now[0]:
        return before != now
    return now[0] != ABSENT and max(abs(a - b) for a, b in zip(before[1], now[1], strict=True)) > MOVED
