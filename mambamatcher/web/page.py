"""The page and its routes: static files, a session's images, points found one click at a time, and a drawing."""

import json
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, HTTPException, Request, Response, UploadFile
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image

import mambamatcher
from mambamatcher.errors import InputError
from mambamatcher.io.drawing import draw_matches
from mambamatcher.web.bounded import BoundedRoute
from mambamatcher.web.guard import same_secret
from mambamatcher.web.schemas import (
    DrawingRequest,
    ExampleResponse,
    ImageInfo,
    MatchResponse,
    PairRequest,
    SignInRequest,
    to_matches,
    to_response,
)
from mambamatcher.web.state import ServerState, State
from mambamatcher.web.uploads import StoredImage, Upload, store_image

STATIC = Path(__file__).parent / "static"
PHOTOS = Path(mambamatcher.__file__).parent / "assets" / "photos"

MAX_SIDE = 1_000_000  # of an image, as everywhere in the package
# The page keeps copies, and sends one again when the server has evicted the image.
OriginalSide = Annotated[
    int | None, Form(ge=1, le=MAX_SIDE, description="Of a copy: the side of the upright original.")
]

router = APIRouter(route_class=BoundedRoute)


class RevalidatedFiles(StaticFiles):
    """Static files that a browser caches but revalidates, so that a page never runs scripts of another version."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """Add the header to Starlette's response."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "no-cache"
        return response


static_files = RevalidatedFiles(directory=STATIC)


@router.get("/", include_in_schema=False)
async def index() -> FileResponse:
    """Serve the page."""
    return FileResponse(STATIC / "index.html")


@router.post("/signin", status_code=204)
async def sign_in(state: State, request: Request, response: Response, given: SignInRequest) -> None:
    """Exchange the token for a session cookie, which the browser also sends when it loads images."""
    if state.settings.token is not None and not same_secret(given.token, state.settings.token):
        raise HTTPException(401, "this is not the server's token")
    state.new_session(request, response)


@router.post("/pictures", status_code=201)
async def add_image(
    state: State,
    request: Request,
    response: Response,
    picture: Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, BMP or TIFF.")],
    width: OriginalSide = None,
    height: OriginalSide = None,
) -> ImageInfo:
    """Store an image in the client's session."""
    upload = await state.receive(picture)
    image = await state.workers.run(_store_blocking, state, upload)
    image = replace(image, width=width or image.width, height=height or image.height)
    state.sessions.add(state.session_or_new(request, response), image, state.settings.targets + 1)
    return ImageInfo.of(image)


@router.post("/example", status_code=201)
async def add_example(state: State, request: Request, response: Response) -> ExampleResponse:
    """Store two sample photos of the package in the client's session."""
    session = state.session_or_new(request, response)
    source, target = await state.workers.run(_load_example_blocking)
    for image in (source, target):
        state.sessions.add(session, image, state.settings.targets + 1)
    points = json.loads((PHOTOS / "cat.json").read_text(encoding="utf-8"))
    return ExampleResponse(
        source=ImageInfo.of(source),
        target=ImageInfo.of(target),
        names=points["names"],
        points=points["points"],
    )


@router.get("/pictures/{picture_id}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
async def show_image(state: State, request: Request, picture_id: str) -> Response:
    """Return the upright image, scaled down if it is large."""
    return Response(state.image(request, picture_id).jpeg, media_type="image/jpeg")


@router.delete("/pictures/{picture_id}", status_code=204)
async def remove_image(state: State, request: Request, picture_id: str) -> None:
    """Remove an image from the client's session."""
    image = state.image(request, picture_id)
    del state.session(request).images[image.id]


@router.post("/pairs/match", response_model=MatchResponse)
async def match_pair(state: State, request: Request, body: PairRequest) -> Response:
    """Find the points of one image of the session in another."""
    state.check_point_count(body.points)
    source, target = state.image(request, body.source), state.image(request, body.target)
    _check_inside(body.points, source)
    model = state.models.resolve(body.model)
    return await state.workers.run(_match_blocking, state, body, (source, target), model)


@router.post("/drawing", response_class=Response, responses={200: {"content": {"image/png": {}}}})
async def draw_pair(state: State, request: Request, body: DrawingRequest) -> Response:
    """Draw two images of the session side by side with their matches."""
    state.check_point_count(body.matches)
    images = state.image(request, body.source), state.image(request, body.target)
    _check_inside((match.source for match in body.matches), images[0])
    _check_inside((match.target for match in body.matches), images[1])
    drawn = await state.workers.run(_draw_blocking, body, *images)
    return Response(drawn, media_type="image/png", headers=_attachment("matches.png"))


def _attachment(file_name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{file_name}"'}


def _store_blocking(state: ServerState, upload: Upload) -> StoredImage:
    return store_image(state.decode_blocking(upload), upload.name)


def _load_example_blocking() -> list[StoredImage]:
    return [store_image(Image.open(PHOTOS / name), name) for name in ("cat.jpg", "raccoon.jpg")]


def _match_blocking(
    state: ServerState, body: PairRequest, pair: tuple[StoredImage, StoredImage], model: str
) -> Response:
    """Match the stored copies, with points converted from and to pixels of the originals."""
    source, target = pair
    copies = state.read_blocking(model, source), state.read_blocking(model, target)
    scales = source.scale_from(copies[0].image), target.scale_from(copies[1].image)
    points = np.asarray(body.points, dtype=float).reshape(-1, 2) / scales[0]
    points = np.minimum(points, copies[0].image.size)  # rounding must not move a point on the edge outside
    result, threshold, seconds = state.match_blocking(model, *copies, points)
    return to_response(
        MatchResponse(
            model=model,
            source_size=(source.width, source.height),
            target_size=(target.width, target.height),
            matches=[] if result is None else to_matches(result, scales, body.heatmaps),
            threshold=threshold,
            seconds=seconds,
        )
    )


def _draw_blocking(request: DrawingRequest, source: StoredImage, target: StoredImage) -> bytes:
    """Draw both images side by side with their matches, as a PNG file."""
    copies = source.decode_copy(), target.decode_copy()
    scales = source.scale_from(copies[0]), target.scale_from(copies[1])
    drawn = draw_matches(
        *copies,
        np.array([match.source for match in request.matches], dtype=float) / scales[0],
        np.array([match.target for match in request.matches], dtype=float) / scales[1],
        np.array([match.confidence for match in request.matches], dtype=float),
        np.array([match.matched for match in request.matches], dtype=bool),
    )
    encoded = BytesIO()
    drawn.save(encoded, "PNG")
    return encoded.getvalue()


def _check_inside(points: Iterable[tuple[float, float]], image: StoredImage) -> None:
    """Check points here, where they are in the client's pixels, so that the message is too."""
    width, height = image.width, image.height
    for number, (x, y) in enumerate(points, 1):
        if not (0 <= x <= width and 0 <= y <= height):
            raise InputError(
                f"point {number}, ({x:g}, {y:g}), lies outside {image.name}, which has {width}x{height} pixels"
            )
