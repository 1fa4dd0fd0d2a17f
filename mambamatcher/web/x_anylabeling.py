"""The routes of `serve --x-anylabeling`: what X-AnyLabeling expects of a remote server.

Its `GET /health` is that of `api.py`. Images arrive as data URLs, so nothing is fetched.
"""

import binascii
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field, FiniteFloat

from mambamatcher.errors import InputError
from mambamatcher.io.points.point_set import ABSENT, VISIBLE, make_points
from mambamatcher.io.points.x_anylabeling_format import to_shapes
from mambamatcher.web.bounded import ToolRoute
from mambamatcher.web.predictor import Predictor, logged
from mambamatcher.web.schemas import MAX_POINTS
from mambamatcher.web.state import State
from mambamatcher.web.uploads import Upload

router = APIRouter(route_class=ToolRoute, prefix="/v1")

MODEL = "mambamatcher"
PREFIX = "data:image/"

Names = Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=MAX_POINTS)]


class Parameters(BaseModel):
    """Settings of X-AnyLabeling's panel; those for other kinds of models are ignored."""

    conf_threshold: FiniteFloat | None = Field(None, description="Least confidence; by default the model's threshold.")
    filter_classes: Names | None = Field(None, description="The points to find; none stands for all.")


class PredictRequest(BaseModel):
    """An image to find the points in."""

    model: Annotated[str, Field(max_length=100)]
    image: Annotated[str, Field(description="A data URL: data:image/png;base64,...")]
    params: Parameters = Field(default_factory=lambda: Parameters.model_validate({}))


class Shapes(BaseModel):
    """The points found in an image, as in X-AnyLabeling's files."""

    shapes: list[dict[str, Any]]
    description: str = ""


class PredictResponse(BaseModel):
    """The answer to a prediction, as X-AnyLabeling wraps it."""

    success: Literal[True] = True
    data: Shapes


class ModelsResponse(BaseModel):
    """What X-AnyLabeling shows for each model."""

    success: Literal[True] = True
    data: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class XAnyLabeling:
    """What the routes share."""

    router: ClassVar[APIRouter] = router

    predictor: Predictor

    def instruction(self, address: str) -> str:
        """Return what to do in X-AnyLabeling."""
        return f"in X-AnyLabeling: Auto Labeling, Remote-Server, Server URL {address}"

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


async def get_x_anylabeling(request: Request) -> XAnyLabeling:
    """Return what this server was started to predict."""
    return request.app.state.tools[XAnyLabeling]


Connected = Annotated[XAnyLabeling, Depends(get_x_anylabeling)]


@router.get("/models")
async def models(connected: Connected) -> ModelsResponse:
    """Describe the one model, and the controls that X-AnyLabeling shows for it."""
    widgets = [
        {"name": "button_run", "value": None},
        {"name": "input_conf", "value": None},
        {"name": "edit_conf", "value": connected.predictor.matcher.calibration.threshold},
        {"name": "toggle_preserve_existing_annotations", "value": False},
        {"name": "button_classes_filter", "value": None},
    ]
    described = {
        "display_name": "mambamatcher",
        "widgets": widgets,
        "classes": connected.predictor.names,
        "batch_processing_mode": "default",
    }
    return ModelsResponse(data={MODEL: described})


@router.post("/predict")
async def predict(state: State, connected: Connected, body: PredictRequest) -> PredictResponse:
    """Find the points of the reference in an image."""
    with logged("X-AnyLabeling"):
        names = connected.predictor.names
        wanted = body.params.filter_classes or names
        _check(body.model, wanted, names)
        found = await state.workers.run(
            lambda: connected.predictor.predict_blocking(
                state, _decode_data_url(body.image, state.settings.picture_bytes)
            )
        )
    limit = body.params.conf_threshold
    kept = found.matched if limit is None else found.confidence >= limit
    shown = [VISIBLE if is_kept and name in wanted else ABSENT for name, is_kept in zip(found.names, kept, strict=True)]
    return PredictResponse(
        data=Shapes(shapes=to_shapes([make_points(found.points, found.names, shown, found.confidence)]))
    )


def _check(model: str, wanted: Sequence[str], names: Sequence[str]) -> None:
    if model != MODEL:
        raise InputError(f"there is no model {model!r} here; choose {MODEL!r}")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise InputError(
            f"the reference has no point {unknown[0]!r}; its points are: {', '.join(map(repr, names[:10]))}"
        )


def _decode_data_url(url: str, max_bytes: int) -> Upload:
    """Return the image in a data URL; its content is recognised later, whatever type the URL names."""
    head, _, data = url.partition(",")
    if not head.startswith(PREFIX) or not head.endswith(";base64"):
        raise InputError("the image must be a data URL like data:image/png;base64,...; addresses are not fetched")
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("the image is not valid base64") from error
    if len(content) > max_bytes:
        raise InputError(f"the image has more than the {max_bytes:,} bytes allowed; make it smaller first")
    return Upload(content, "the image")
