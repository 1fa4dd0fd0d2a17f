"""What the page needs: its files, a client's pictures, and points found in them one click at a time."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, HTTPException, Request, Response, UploadFile
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image

import mambamatcher
from mambamatcher.errors import InputError
from mambamatcher.web import exports
from mambamatcher.web.guard import same_secret
from mambamatcher.web.pictures import Picture, keep
from mambamatcher.web.schemas import (
    DrawingRequest,
    Example,
    Matches,
    PairRequest,
    PointsRequest,
    SignIn,
    StoredPicture,
    to_matches,
)
from mambamatcher.web.service import Service, ServiceOf, Upload

STATIC = Path(__file__).parent / "static"
PHOTOS = Path(mambamatcher.__file__).parent / "assets" / "photos"

router = APIRouter()


class Revalidated(StaticFiles):
    """Files a browser may keep, but asks for again: a page never runs with another version's scripts."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """Serve one."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "no-cache"
        return response


static_files = Revalidated(directory=STATIC)


@router.get("/", include_in_schema=False)
async def index() -> FileResponse:
    """Serve the page."""
    return FileResponse(STATIC / "index.html")


@router.post("/signin", status_code=204)
async def sign_in(service: ServiceOf, request: Request, response: Response, given: SignIn) -> None:
    """Exchange the token for a session, so that the page can show pictures."""
    if service.settings.token is not None and not same_secret(given.token, service.settings.token):
        raise HTTPException(401, "this is not the server's token")
    service.new_session(request, response)


@router.post("/pictures", status_code=201)
async def add_picture(
    service: ServiceOf,
    request: Request,
    response: Response,
    picture: Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, BMP or TIFF.")],
) -> StoredPicture:
    """Keep a picture for a while, for this client only."""
    upload = await service.receive(picture)
    kept = await service.work.run(_keep_now, service, upload)
    service.sessions.add(service.session_or_new(request, response), kept, service.settings.targets + 1)
    return StoredPicture.of(kept)


@router.post("/example", status_code=201)
async def add_example(service: ServiceOf, request: Request, response: Response) -> Example:
    """Give this client two of the photos that come with the package."""
    session = service.session_or_new(request, response)
    source, target = await service.work.run(_example_now)
    for picture in (source, target):
        service.sessions.add(session, picture, service.settings.targets + 1)
    points = json.loads((PHOTOS / "cat.json").read_text(encoding="utf-8"))
    return Example(
        source=StoredPicture.of(source),
        target=StoredPicture.of(target),
        names=points["names"],
        points=points["points"],
    )


@router.get("/pictures/{picture_id}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
async def show_picture(service: ServiceOf, request: Request, picture_id: str) -> Response:
    """Return the upright picture, made smaller where it is large."""
    return Response(service.picture(request, picture_id).jpeg, media_type="image/jpeg")


@router.delete("/pictures/{picture_id}", status_code=204)
async def remove_picture(service: ServiceOf, request: Request, picture_id: str) -> None:
    """Forget a picture now."""
    picture = service.picture(request, picture_id)
    del service.session(request).pictures[picture.id]


@router.post("/pairs/match")
async def match_pair(service: ServiceOf, request: Request, asked: PairRequest) -> Matches:
    """Find points of one of this client's pictures in another."""
    service.check_points(asked.points)
    source, target = service.picture(request, asked.source), service.picture(request, asked.target)
    _check_inside(asked.points, source)
    model = service.models.check(asked.model)
    return await service.work.run(_match_now, service, asked, (source, target), model)


@router.post("/points/{file_format}", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def write_points(
    service: ServiceOf, request: Request, file_format: exports.Format, asked: PointsRequest
) -> Response:
    """Write points as a file: JSON, CSV or COCO keypoints, as the command line reads them."""
    pictures = []
    for each in asked.pictures:
        service.check_points(each.points)
        picture = service.picture(request, each.picture)
        _check_inside(((point.x, point.y) for point in each.points), picture)
        pictures.append((picture, each.points))
    write, media_type, file_name = exports.WRITERS[file_format]
    text = await service.work.run(lambda: write(exports.annotate(pictures)))
    return Response(text, media_type=media_type, headers=_download(file_name))


@router.post("/drawing", response_class=Response, responses={200: {"content": {"image/png": {}}}})
async def draw_pair(service: ServiceOf, request: Request, asked: DrawingRequest) -> Response:
    """Draw two of this client's pictures side by side with their matches."""
    service.check_points(asked.matches)
    pictures = service.picture(request, asked.source), service.picture(request, asked.target)
    _check_inside((match.source for match in asked.matches), pictures[0])
    _check_inside((match.target for match in asked.matches), pictures[1])
    drawn = await service.work.run(exports.draw, asked, *pictures)
    return Response(drawn, media_type="image/png", headers=_download("matches.png"))


def _download(file_name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{file_name}"'}


def _keep_now(service: Service, upload: Upload) -> Picture:
    return keep(service.decode_now(upload), upload.name)


def _example_now() -> list[Picture]:
    return [keep(Image.open(PHOTOS / name), name) for name in ("cat.jpg", "raccoon.jpg")]


def _match_now(service: Service, asked: PairRequest, pictures: tuple[Picture, Picture], model: str) -> Matches:
    source, target = pictures
    images = source.image(), target.image()
    scales = source.scale(images[0]), target.scale(images[1])
    points = np.asarray(asked.points, dtype=float).reshape(-1, 2) / scales[0]
    points = np.minimum(points, images[0].size)  # a point on the edge stays inside in spite of rounding
    result, seconds = service.match_now(model, *images, points)
    return Matches(
        model=model,
        source_size=(source.width, source.height),
        target_size=(target.width, target.height),
        matches=[] if result is None else to_matches(result, scales, asked.heatmaps),
        seconds=seconds,
    )


def _check_inside(points: Iterable[tuple[float, float]], picture: Picture) -> None:
    """Say it in the client's pixels, which are not those of the copy that is matched and drawn."""
    width, height = picture.width, picture.height
    for number, (x, y) in enumerate(points, 1):
        if not (0 <= x <= width and 0 <= y <= height):
            raise InputError(
                f"point {number}, ({x:g}, {y:g}), lies outside {picture.name}, which has {width}x{height} pixels"
            )
