"""The routes of `serve --label-studio`: what Label Studio expects of a machine learning backend.

Its `GET /health` is that of `api.py`.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel, Field

from mambamatcher.errors import InputError
from mambamatcher.tools.label_studio import KeypointTag, find_keypoint_tag, to_prediction
from mambamatcher.web.bounded import ToolRoute
from mambamatcher.web.fetching import THREADS, LabelStudioImages
from mambamatcher.web.predictor import Predictor, logged
from mambamatcher.web.state import ServerState, State

router = APIRouter(route_class=ToolRoute)

MAX_CONFIG_LENGTH = 200_000
MAX_PROJECTS = 1000  # whose labelling interfaces are remembered

LabelConfig = Annotated[str, Field(max_length=MAX_CONFIG_LENGTH, description="The labelling interface, as XML.")]
Project = Annotated[str, Field(max_length=100, description="The project and when it was created.")]


class SetupRequest(BaseModel):
    """What Label Studio sends when the backend is connected. Its address and its user's token are not used."""

    project: Project
    label_config: LabelConfig = Field(alias="schema")


class SetupResponse(BaseModel):
    """The name under which Label Studio stores predictions."""

    model_version: str


class VersionsResponse(BaseModel):
    """All names of predictions: there is one."""

    versions: list[str]


class Task(BaseModel):
    """A task; only its data is used."""

    data: dict[str, Any]


class PredictRequest(BaseModel):
    """Tasks to predict. Label Studio sends the labelling interface with every request."""

    tasks: Annotated[list[Task], Field(min_length=1)]
    project: Project | None = None
    label_config: LabelConfig | None = None


class PredictResponse(BaseModel):
    """One entry per task: a prediction, or an empty list where the image could not be used."""

    results: list[Any]
    model_version: str


@dataclass
class LabelStudio:
    """What the routes share.

    Attributes:
        predictor: Finds the points.
        images: The images of the Label Studio server.
        projects: Where each project that was set up takes keypoints.
    """

    router: ClassVar[APIRouter] = router

    predictor: Predictor
    images: LabelStudioImages
    projects: OrderedDict[str, KeypointTag] = field(default_factory=OrderedDict)

    @cached_property
    def slots(self) -> asyncio.Semaphore:
        """Limits the fetched images in memory."""
        return asyncio.Semaphore(THREADS)

    def instruction(self, address: str) -> str:
        """Return what to do in Label Studio."""
        return f"in Label Studio: Settings, Model, Connect Model, Backend URL {address}"

    def close(self) -> None:
        """Stop fetching images."""
        self.images.close()

    def set_up(self, project: str, label_config: str) -> None:
        """Remember where a project takes keypoints."""
        self.projects[project] = find_keypoint_tag(label_config, self.predictor.names)
        self.projects.move_to_end(project)
        if len(self.projects) > MAX_PROJECTS:
            self.projects.popitem(last=False)

    def find_tag(self, body: PredictRequest) -> KeypointTag:
        """Return where the project of a request takes keypoints."""
        if body.label_config:
            return find_keypoint_tag(body.label_config, self.predictor.names)
        tag = self.projects.get(body.project or "")
        if tag is None:
            raise InputError(
                f"the project {body.project!r} has not been set up here; connect this server in Label Studio under "
                "Settings, Model"
            )
        return tag

    async def predict(self, state: ServerState, tag: KeypointTag, task: Task) -> dict[str, Any]:
        """Return the prediction for a task."""
        address = task.data.get(tag.field)
        if not isinstance(address, str) or not address:
            raise InputError(f"the task has no image address in its field {tag.field!r}")
        async with self.slots:
            image = await self.images.fetch(address)
            found = await state.workers.run(self.predictor.predict_blocking, state, image)
        return to_prediction(tag, found, self.predictor.version)


async def get_label_studio(request: Request) -> LabelStudio:
    """Return the Label Studio server that this server was started for."""
    return request.app.state.tools[LabelStudio]


Connected = Annotated[LabelStudio, Depends(get_label_studio)]


@router.post("/setup")
async def setup(connected: Connected, body: SetupRequest) -> SetupResponse:
    """Check that a project has a keypoint label for each point of the reference."""
    with logged("Label Studio"):
        connected.set_up(body.project, body.label_config)
    return SetupResponse(model_version=connected.predictor.version)


@router.get("/versions")
async def versions(connected: Connected) -> VersionsResponse:
    """Name the version of the predictions."""
    return VersionsResponse(versions=[connected.predictor.version])


@router.post("/predict")
async def predict(state: State, connected: Connected, body: PredictRequest) -> PredictResponse:
    """Find the points of the reference in the images of tasks."""
    if len(body.tasks) > state.settings.targets:
        raise HTTPException(413, f"there are {len(body.tasks)} tasks, more than the {state.settings.targets} allowed")
    results: list[Any] = []
    errors: list[InputError] = []
    with logged("Label Studio"):
        tag = connected.find_tag(body)
        for task in body.tasks:
            try:
                with logged("Label Studio"):
                    results.append(await connected.predict(state, tag, task))
            except InputError as error:
                errors.append(error)
                results.append([])
    if len(errors) == len(body.tasks):
        raise errors[0]
    return PredictResponse(results=results, model_version=connected.predictor.version)
