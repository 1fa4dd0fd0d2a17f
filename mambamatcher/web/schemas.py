"""The JSON of requests and responses. All points are pixels of the upright image as it was uploaded."""

from base64 import b64encode
from typing import Annotated, Literal

import numpy as np
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from mambamatcher.matching.matcher import MatchResult
from mambamatcher.web.uploads import StoredImage

MAX_POINTS = 500
MAX_TARGETS = 500

Point = tuple[FiniteFloat, FiniteFloat]
# Checked before the items are, and validation stops at the first wrong item.
BOUNDED = Field(max_length=MAX_POINTS, fail_fast=True)
Points = Annotated[list[Point], BOUNDED]
ImageId = Annotated[str, Field(max_length=40, description="From an upload in the same session.")]
ModelName = Annotated[str | None, Field(max_length=100, description="One of /models; by default the first.")]


class Schema(BaseModel):
    """Base of all schemas. Unknown fields are refused, so that misspelt ones are noticed."""

    model_config = ConfigDict(extra="forbid")


class ErrorResponse(Schema):
    """Why a request was refused: what was wrong, what was given, what to do."""

    detail: str


class HealthResponse(Schema):
    """Version and load of the server."""

    status: Literal["ok"] = "ok"
    version: str
    requests: int = Field(description="Requests received and not answered yet.")
    max_requests: int


class ModelInfo(Schema):
    """A model to choose from."""

    name: str
    default: bool


class Limits(Schema):
    """The limits on requests, so that the page can explain them before an upload is refused."""

    picture_bytes: int
    picture_pixels: int
    points: int
    targets: int
    keep_seconds: float


class ModelsResponse(Schema):
    """All models and the limits on requests."""

    models: list[ModelInfo]
    limits: Limits


class Heatmap(Schema):
    """Where a point may lie on the target's grid: one byte per cell, row by row, 255 at the maximum, in base64."""

    rows: int
    columns: int
    values: str

    @classmethod
    def of(cls, distribution: np.ndarray) -> "Heatmap":
        """Encode a distribution over the target's grid."""
        scaled = np.uint8(np.round(255.0 * distribution / max(float(distribution.max()), 1e-12)))
        rows, columns = distribution.shape
        return cls(rows=rows, columns=columns, values=b64encode(scaled.tobytes()).decode())


class FoundPoint(Schema):
    """A point of the source and where it was found in the target."""

    source: Point
    target: Point
    confidence: float = Field(ge=0, le=1)
    matched: bool = Field(description="False where the target probably has no such point.")


class Match(FoundPoint):
    """A point of the source, where it was found in the target and, on request, a heat map."""

    heatmap: Heatmap | None = None


class MatchResponse(Schema):
    """The points of a source found in one target."""

    model: str
    source_size: tuple[int, int]
    target_size: tuple[int, int]
    matches: list[Match]
    threshold: float = Field(description="The model's: points below this confidence count as not matched.")
    seconds: float = Field(description="Time in the model, without waiting.")


class TargetMatches(MatchResponse):
    """The points of a source found in one of several targets."""

    target: str = Field(description="The name of the uploaded file.")


class PropagateResponse(Schema):
    """The points of a source found in every target, in the order of the request."""

    targets: list[TargetMatches]


class ImageInfo(Schema):
    """An image of the session, with the size of the upright original."""

    id: str
    name: str
    width: int
    height: int

    @classmethod
    def of(cls, image: StoredImage) -> "ImageInfo":
        """Describe a stored image to its client."""
        return cls(id=image.id, name=image.name, width=image.width, height=image.height)


class ExampleResponse(Schema):
    """Two images to try, and named points on the source."""

    source: ImageInfo
    target: ImageInfo
    names: list[str]
    points: list[Point]


class PairRequest(Schema):
    """Points to find. Without points the pair is only encoded, so that the next request for it is faster."""

    source: ImageId
    target: ImageId
    points: Points
    model: ModelName = None
    heatmaps: bool = False


class DrawingRequest(Schema):
    """Two images of the session and the matches to draw on them."""

    source: ImageId
    target: ImageId
    matches: Annotated[list[FoundPoint], Field(min_length=1, max_length=MAX_POINTS, fail_fast=True)]


class SignInRequest(Schema):
    """The token the server was started with."""

    token: Annotated[str, Field(max_length=1000)]


def to_response(content: Schema) -> Response:
    """Encode a response as JSON. Use it in a worker thread: FastAPI would encode it in that of the event loop."""
    return Response(content.model_dump_json(), media_type="application/json")


def to_matches(result: MatchResult, scales: tuple[np.ndarray, np.ndarray], heatmaps: bool) -> list[Match]:
    """Convert a result to its JSON form.

    Args:
        result: Points in pixels of the matched images.
        scales: Factors (x, y) from these pixels to those of the uploaded images, for the source and the target.
        heatmaps: Whether to include a heat map for each point.
    """
    source_scale, target_scale = scales
    return [
        Match(
            source=tuple(source * source_scale),
            target=tuple(target * target_scale),
            confidence=float(np.clip(confidence, 0.0, 1.0)),
            matched=bool(matched),
            heatmap=Heatmap.of(distribution) if heatmaps else None,
        )
        for source, target, confidence, matched, distribution in zip(
            result.source_points, result.points, result.confidence, result.matched, result.heatmaps, strict=True
        )
    ]
