"""What goes over the wire. Every point is in pixels of the upright picture as it was uploaded."""

from base64 import b64encode
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from mambamatcher.matching.matcher import MatchResult
from mambamatcher.web.pictures import Picture

Point = tuple[FiniteFloat, FiniteFloat]
PictureId = Annotated[str, Field(max_length=40, description="From an upload of the same session.")]
ModelName = Annotated[str | None, Field(max_length=100, description="One of /models; the first of them if left out.")]


class Wire(BaseModel):
    """A message; fields it does not know are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class Problem(Wire):
    """Why a request was not answered: what was wrong, what was given, what to do."""

    detail: str


class Health(Wire):
    """That the server answers, and how much it has to do."""

    status: Literal["ok"] = "ok"
    version: str
    requests: int = Field(description="Being received or answered.")
    max_requests: int


class Model(Wire):
    """A model that can be chosen."""

    name: str
    default: bool


class Limits(Wire):
    """What the page tells its user before an upload is refused."""

    picture_bytes: int
    picture_pixels: int
    points: int
    targets: int
    keep_seconds: float


class Models(Wire):
    """All models, and what may be sent to them."""

    models: list[Model]
    limits: Limits


class Heatmap(Wire):
    """Where a point may lie: one byte a cell, row by row, 255 at the likeliest; base64."""

    rows: int
    columns: int
    values: str

    @classmethod
    def of(cls, distribution: np.ndarray) -> "Heatmap":
        """Encode a distribution over the target's grid."""
        scaled = np.uint8(np.round(255.0 * distribution / max(float(distribution.max()), 1e-12)))
        rows, columns = distribution.shape
        return cls(rows=rows, columns=columns, values=b64encode(scaled.tobytes()).decode())


class FoundPoint(Wire):
    """One point and where it was found."""

    source: Point
    target: Point
    confidence: float = Field(ge=0, le=1)
    matched: bool = Field(description="False where the target seems to have no such point.")


class Match(FoundPoint):
    """One point, where it was found and, if asked for, where else it may lie."""

    heatmap: Heatmap | None = None


class Matches(Wire):
    """Points of a source found in one target."""

    model: str
    source_size: tuple[int, int]
    target_size: tuple[int, int]
    matches: list[Match]
    seconds: float = Field(description="Time in the model, without waiting.")


class NamedMatches(Matches):
    """Points of a source found in one of several targets."""

    target: str = Field(description="The file's name as it was uploaded.")


class Propagation(Wire):
    """Points of a source found in every target, in the order given."""

    targets: list[NamedMatches]


class StoredPicture(Wire):
    """An uploaded picture; the size is that of the upright picture."""

    id: str
    name: str
    width: int
    height: int

    @classmethod
    def of(cls, picture: Picture) -> "StoredPicture":
        """Describe a picture to the client that owns it."""
        return cls(id=picture.id, name=picture.name, width=picture.width, height=picture.height)


class Example(Wire):
    """Two pictures to try, and points worth asking for."""

    source: StoredPicture
    target: StoredPicture
    names: list[str]
    points: list[Point]


class PairRequest(Wire):
    """Points to find. Without any, the pair is only prepared, and the next request answered sooner."""

    source: PictureId
    target: PictureId
    points: list[Point]
    model: ModelName = None
    heatmaps: bool = False


class NamedPoint(Wire):
    """A point to write into a file; without a confidence it was set by hand."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    x: FiniteFloat
    y: FiniteFloat
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    matched: bool = True


class AnnotatedPicture(Wire):
    """One of the client's pictures and its points."""

    picture: PictureId
    points: list[NamedPoint]


class PointsRequest(Wire):
    """What to write into one file."""

    pictures: Annotated[list[AnnotatedPicture], Field(min_length=1)]


class DrawingRequest(Wire):
    """A pair of the client's pictures and the matches to draw on them."""

    source: PictureId
    target: PictureId
    matches: Annotated[list[FoundPoint], Field(min_length=1)]


class SignIn(Wire):
    """The token the server was started with."""

    token: Annotated[str, Field(max_length=1000)]


def to_matches(result: MatchResult, scales: tuple[np.ndarray, np.ndarray], heatmaps: bool) -> list[Match]:
    """Describe a result; `scales` brings the source's and the target's pixels to those of the uploaded pictures."""
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
