"""The stateless routes: images and points in, points out, nothing stored."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, HTTPException, Response, UploadFile
from pydantic import Json

from mambamatcher import __version__
from mambamatcher.errors import InputError
from mambamatcher.web.bounded import BoundedRoute
from mambamatcher.web.schemas import (
    HealthResponse,
    Limits,
    MatchResponse,
    ModelInfo,
    ModelsResponse,
    Point,
    Points,
    PropagateResponse,
    TargetMatches,
    to_matches,
    to_response,
)
from mambamatcher.web.state import ServerState, State
from mambamatcher.web.uploads import Upload

router = APIRouter(route_class=BoundedRoute)

PointsField = Annotated[Json[Points], Form(description="JSON: [[x, y], ...]", examples=["[[120, 80], [64, 200]]"])]
ModelName = Annotated[str | None, Form(max_length=100, description="One of /models; by default the first.")]
UNSCALED = (np.ones(2), np.ones(2))


@router.get("/health")
async def health(state: State) -> HealthResponse:
    """Report that the server answers, and how busy it is."""
    workers = state.workers
    return HealthResponse(version=__version__, requests=workers.requests, max_requests=workers.max_requests)


@router.get("/models")
async def models(state: State) -> ModelsResponse:
    """List the models, the default first, and the limits on requests."""
    names = state.models.names
    return ModelsResponse(
        models=[ModelInfo(name=name, default=name == names[0]) for name in names],
        limits=Limits(**{name: getattr(state.settings, name) for name in Limits.model_fields}),
    )


@router.post("/match", response_model=MatchResponse)
async def match(
    state: State,
    source: Annotated[UploadFile, File(description="The image with the points.")],
    target: Annotated[UploadFile, File(description="The image to find them in.")],
    points: PointsField,
    model: ModelName = None,
    heatmaps: Annotated[bool, Form(description="Whether to include a heat map for each point.")] = False,
) -> Response:
    """Find the points of one image in another."""
    query = _Query(state, model, points)
    uploads = await state.receive(source), await state.receive(target)
    return await state.workers.run(lambda: to_response(query.match_blocking(*uploads, heatmaps)))


@router.post("/propagate", response_model=PropagateResponse)
async def propagate(
    state: State,
    source: Annotated[UploadFile, File(description="The image with the points.")],
    targets: Annotated[list[UploadFile], File(description="The images to find them in.")],
    points: PointsField,
    model: ModelName = None,
) -> Response:
    """Find the points of one image in many others."""
    if len(targets) > state.settings.targets:
        raise HTTPException(413, f"there are {len(targets)} targets, more than the {state.settings.targets} allowed")
    query = _Query(state, model, points)
    reference = await state.receive(source)
    results = []
    for file in targets:  # one job per target, so that requests of other clients run in between
        target = await state.receive(file)
        results.append(await state.workers.run(query.match_target_blocking, reference, target))
    return await state.workers.run(lambda: to_response(PropagateResponse(targets=results)))


class _Query:
    """The points and the model of one request, checked before any image is read."""

    def __init__(self, state: ServerState, model: str | None, points: list[Point]) -> None:
        if not points:
            raise InputError("the list of points is empty; give at least one [x, y]")
        state.check_point_count(points)
        self.state = state
        self.points = points
        self.model = state.models.resolve(model)

    def match_target_blocking(self, source: Upload, target: Upload) -> TargetMatches:
        return TargetMatches(target=target.name, **self.match_blocking(source, target, heatmaps=False).model_dump())

    def match_blocking(self, source: Upload, target: Upload, heatmaps: bool) -> MatchResponse:
        images = self.state.decode_blocking(source), self.state.decode_blocking(target)
        result, threshold, seconds = self.state.match_blocking(self.model, *images, self.points)
        assert result is not None
        return MatchResponse(
            model=self.model,
            source_size=images[0].size,
            target_size=images[1].size,
            matches=to_matches(result, UNSCALED, heatmaps),
            threshold=threshold,
            seconds=seconds,
        )
