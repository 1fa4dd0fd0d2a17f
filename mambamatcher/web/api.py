"""The stateless part of the API: pictures and points in, points out, nothing kept."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, HTTPException, UploadFile
from pydantic import Json

from mambamatcher import __version__
from mambamatcher.errors import InputError
from mambamatcher.web.schemas import (
    Health,
    Limits,
    Matches,
    Model,
    Models,
    NamedMatches,
    Point,
    Propagation,
    to_matches,
)
from mambamatcher.web.service import Service, ServiceOf, Upload

router = APIRouter()

Points = Annotated[Json[list[Point]], Form(description="JSON: [[x, y], ...]", examples=["[[120, 80], [64, 200]]"])]
ModelName = Annotated[str | None, Form(max_length=100, description="One of /models; the first if left out.")]
UNSCALED = (np.ones(2), np.ones(2))


@router.get("/health")
async def health(service: ServiceOf) -> Health:
    """Tell that the server answers."""
    return Health(version=__version__, requests=service.work.requests, max_requests=service.work.max_requests)


@router.get("/models")
async def models(service: ServiceOf) -> Models:
    """List the models to choose from, the default first, and the limits."""
    names = service.models.names
    return Models(
        models=[Model(name=name, default=name == names[0]) for name in names],
        limits=Limits(**{name: getattr(service.settings, name) for name in Limits.model_fields}),
    )


@router.post("/match")
async def match(
    service: ServiceOf,
    source: Annotated[UploadFile, File(description="The picture the points are on.")],
    target: Annotated[UploadFile, File(description="The picture to find them in.")],
    points: Points,
    model: ModelName = None,
    heatmaps: Annotated[bool, Form(description="Whether to send where each point may lie.")] = False,
) -> Matches:
    """Find points of one picture in another."""
    finder = _Finder(service, model, points)
    return await finder.find(await service.receive(source), await service.receive(target), heatmaps)


@router.post("/propagate")
async def propagate(
    service: ServiceOf,
    source: Annotated[UploadFile, File(description="The picture the points are on.")],
    targets: Annotated[list[UploadFile], File(description="The pictures to find them in.")],
    points: Points,
    model: ModelName = None,
) -> Propagation:
    """Find points of one picture in many others."""
    if len(targets) > service.settings.targets:
        raise HTTPException(413, f"there are {len(targets)} targets, more than the {service.settings.targets} allowed")
    finder = _Finder(service, model, points)
    reference = await service.receive(source)
    found = []
    for file in targets:  # one job each, so that other clients are answered in between
        target = await service.receive(file)
        matches = await finder.find(reference, target, heatmaps=False)
        found.append(NamedMatches(target=target.name, **matches.model_dump()))
    return Propagation(targets=found)


class _Finder:
    """One request's points and model, checked before any picture is read."""

    def __init__(self, service: Service, model: str | None, points: list[Point]) -> None:
        if not points:
            raise InputError("the list of points is empty; give at least one [x, y]")
        service.check_points(points)
        self.service = service
        self.points = points
        self.model = service.models.check(model)

    async def find(self, source: Upload, target: Upload, heatmaps: bool) -> Matches:
        return await self.service.work.run(self._find_now, source, target, heatmaps)

    def _find_now(self, source: Upload, target: Upload, heatmaps: bool) -> Matches:
        pictures = self.service.decode_now(source), self.service.decode_now(target)
        result, seconds = self.service.match_now(self.model, *pictures, self.points)
        assert result is not None
        return Matches(
            model=self.model,
            source_size=pictures[0].size,
            target_size=pictures[1].size,
            matches=to_matches(result, UNSCALED, heatmaps),
            seconds=seconds,
        )
