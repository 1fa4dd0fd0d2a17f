"""The JSON of the review routes. All points are pixels of the upright image."""

from typing import Annotated

from pydantic import Field

from mambamatcher.tools.corrections import Status
from mambamatcher.web.schemas import BOUNDED, Point, Schema

Name = Annotated[str, Field(max_length=1000)]


class ReviewedPoint(Schema):
    """A point by its name; without a place it is absent from the image."""

    name: Name
    place: Point | None


class CorrectionBody(Schema):
    """What was corrected in an image. A point that is left out was not looked at."""

    status: Status
    points: Annotated[list[ReviewedPoint], BOUNDED]


class FoundPoint(Schema):
    """A point as the run found it."""

    name: str
    x: float
    y: float
    confidence: float
    matched: bool


class TargetPoints(Schema):
    """The points of a target as found, and its correction, if there is one."""

    size: tuple[int, int]
    points: list[FoundPoint]
    correction: CorrectionBody | None


class TargetInfo(Schema):
    """A target in the list."""

    number: int
    name: str
    doubt: float
    error: str | None
    status: Status | None
    corrected: int = Field(description="Points that were looked at.")


class ReferenceInfo(Schema):
    """A reference and its points."""

    name: str
    size: tuple[int, int]
    points: list[ReviewedPoint]


class RunInfo(Schema):
    """A run: its references and its targets, the most doubtful first."""

    folder: str
    names: list[str]
    skeleton: list[tuple[str, str]]
    threshold: float
    references: list[ReferenceInfo]
    targets: list[TargetInfo]
    next: int | None = Field(description="Number of the target whose correction promises most.")


class RoundInfo(Schema):
    """A round of correct-and-repeat: how far it is and, at its end, what it changed."""

    running: bool
    done: int
    total: int
    error: str | None = None
    moved: int = Field(default=0, description="Points that are elsewhere than before.")
    changed: int = Field(default=0, description="Targets that have such points.")
    kept: int = Field(default=0, description="Targets kept as corrected.")
