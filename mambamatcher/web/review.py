"""The routes of `mambamatcher review`: a finished run of `propagate`, corrected image by image.

A client names images by their number, never by a path. The number of an image stays the same after a round.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse

from mambamatcher.errors import MambaMatcherError
from mambamatcher.io.images import ImageLike, load_image
from mambamatcher.tools.corrections import Correction
from mambamatcher.tools.propagate import Summary
from mambamatcher.tools.review import doubt
from mambamatcher.tools.reviewing import ReviewedRun, Skeleton
from mambamatcher.web.bounded import BoundedRoute
from mambamatcher.web.page import STATIC
from mambamatcher.web.review_schemas import (
    CorrectionBody,
    FoundPoint,
    ReferenceInfo,
    ReviewedPoint,
    RoundInfo,
    RunInfo,
    TargetInfo,
    TargetPoints,
)
from mambamatcher.web.state import State
from mambamatcher.web.uploads import store_image

router = APIRouter(route_class=BoundedRoute, prefix="/review")
start = APIRouter(route_class=BoundedRoute)


@dataclass
class Review:
    """What the routes share: the run, the lines between its points, and the round that is being computed."""

    run: ReviewedRun
    skeleton: Skeleton = field(default_factory=list)
    round: "asyncio.Task[Summary] | None" = None


async def get_review(request: Request) -> Review:
    """Return the review that this server was started for."""
    return request.app.state.review


Opened = Annotated[Review, Depends(get_review)]


@start.get("/", include_in_schema=False)
async def index() -> FileResponse:
    """Serve the page."""
    return FileResponse(STATIC / "review.html")


@router.get("/run")
async def show_run(state: State, review: Opened) -> RunInfo:
    """List the targets, the most doubtful first, and the references."""
    return await state.workers.run(_run_info_blocking, review)


@router.get("/references/{number}/image", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
async def show_reference(state: State, review: Opened, number: int) -> Response:
    """Return a reference, scaled down if it is large."""
    paths = list(review.run.references)
    if not 0 <= number < len(paths):
        raise HTTPException(404, f"there is no reference {number}")
    return await state.workers.run(_show_blocking, paths[number])


@router.get("/targets/{number}/image", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
async def show_target(state: State, review: Opened, number: int) -> Response:
    """Return a target, scaled down if it is large."""
    name = _result(review, number)["image"]
    return await state.workers.run(lambda: _show_blocking(review.run.image(name)))


@router.get("/targets/{number}")
async def show_points(state: State, review: Opened, number: int) -> TargetPoints:
    """Return the points of a target as they were found, and what is corrected."""
    result = _result(review, number)
    correction = (await state.workers.run(review.run.corrections)).get(result["image"])
    return TargetPoints(
        size=result.get("size", (1, 1)),
        points=[
            FoundPoint(**{key: point[key] for key in ("name", "x", "y", "confidence", "matched")})
            for point in result.get("points", ())
            if not point.get("absent")
        ],
        correction=None
        if correction is None
        else CorrectionBody(status=correction.status, points=_points(correction.points)),
    )


@router.put("/targets/{number}", status_code=204)
async def correct(state: State, review: Opened, number: int, body: CorrectionBody) -> None:
    """Save the correction of a target."""
    result = _result(review, number)
    if "error" in result:
        raise HTTPException(400, f"{_readable(result['image'])} could not be read, so it has no points")
    correction = Correction(body.status, {point.name: point.place for point in body.points})
    await state.workers.run(review.run.correct, result["image"], correction)


@router.delete("/targets/{number}", status_code=204)
async def drop(state: State, review: Opened, number: int) -> None:
    """Drop the correction of a target."""
    await state.workers.run(review.run.correct, _result(review, number)["image"], None)


@router.post("/round", status_code=202)
async def repeat(state: State, review: Opened) -> RoundInfo:
    """Begin a round: the corrected images become references, and the others are computed again."""
    if review.round is None or review.round.done():
        model = state.models.names[0]
        work = asyncio.to_thread(lambda: review.run.repeat(state.models.get(model)))
        review.round = asyncio.create_task(work)
    return await show_round(review)


@router.get("/round")
async def show_round(review: Opened) -> RoundInfo:
    """Report how far the last round is, and what it changed."""
    total = len(review.run.results)
    if review.round is None:
        return RoundInfo(running=False, done=0, total=total)
    if not review.round.done():
        return RoundInfo(running=True, done=await asyncio.to_thread(review.run.count_done), total=total)
    error = review.round.exception()
    if error is not None and not isinstance(error, MambaMatcherError):
        raise error
    summary = None if error else review.round.result()
    return RoundInfo(
        running=False,
        done=total,
        total=total,
        error=None if error is None else str(error),
        moved=sum(summary.moved.values()) if summary else 0,
        changed=len(summary.moved) if summary else 0,
        kept=summary.kept if summary else 0,
    )


def _result(review: Review, number: int) -> Mapping[str, Any]:
    items = review.run.targets.items
    name = items[number].name if 0 <= number < len(items) else None
    if name not in review.run.results:
        raise HTTPException(404, f"there is no target {number} in this run")
    return review.run.results[name]


def _run_info_blocking(review: Review) -> RunInfo:
    run = review.run
    corrections, promising = run.corrections(), run.next_to_correct()
    numbers = {item.name: number for number, item in enumerate(run.targets.items)}
    return RunInfo(
        folder=_readable(run.out.absolute().name),
        names=run.names,
        skeleton=review.skeleton,
        threshold=run.threshold,
        references=[
            ReferenceInfo(
                name=_readable(path.name), size=size, points=_points(dict(zip(each.names, each.points, strict=True)))
            )
            for (path, each), size in zip(run.references.items(), run.reference_sizes, strict=True)
        ],
        targets=[_target_info(numbers[name], each, corrections.get(name)) for name, each in run.results.items()],
        next=None if promising is None else numbers[promising],
    )


def _target_info(number: int, result: Mapping[str, Any], correction: Correction | None) -> TargetInfo:
    return TargetInfo(
        number=number,
        name=_readable(result["image"]),
        doubt=doubt(result),
        error=result.get("error"),
        status=correction.status if correction else None,
        corrected=len(correction.points) if correction else 0,
    )


def _points(places: Mapping[str, Any]) -> list[ReviewedPoint]:
    return [ReviewedPoint(name=name, place=None if at is None else tuple(at)) for name, at in places.items()]


def _show_blocking(image: ImageLike) -> Response:
    cached = {"Cache-Control": "private, max-age=60"}  # long enough for the page to load the next image ahead
    return Response(store_image(load_image(image), "").jpeg, media_type="image/jpeg", headers=cached)


def _readable(name: str) -> str:
    """Return a file name that can be sent; names need not be UTF-8."""
    return name.encode("utf-8", "replace").decode()
