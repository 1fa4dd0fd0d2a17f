"""The FastAPI application, put together. Its routes are in `api.py` and `page.py`, its checks in `guard.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.formparsers import MultiPartParser

from mambamatcher import __version__
from mambamatcher.errors import ConfigError, InputError, MambaMatcherError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.web import api, page, review
from mambamatcher.web.guard import HEADERS, Guard
from mambamatcher.web.label_studio import LabelStudio
from mambamatcher.web.schemas import ErrorResponse
from mambamatcher.web.state import ServerState, Settings
from mambamatcher.web.x_anylabeling import XAnyLabeling

Tool = LabelStudio | XAnyLabeling

MAX_DETAIL_LENGTH = 500  # it may quote the client's own words
ERRORS = {
    400: "The images or points cannot be used.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "The session has expired or has no such image.",
    408: "The request came too slowly.",
    411: "The length of the request is missing.",
    413: "The request, a file or the list of targets is too large.",
    421: "The host name is not one of this server's.",
    422: "A field is missing or has the wrong type.",
    503: "The server is busy (try again after the seconds in Retry-After), or cannot run the model.",
}


def create_app(
    settings: Settings,
    loaders: Mapping[str, Callable[[], Matcher]],
    reviewed: review.Review | None = None,
    tools: Sequence[Tool] = (),
) -> FastAPI:
    """Create the application.

    Args:
        settings: Access and limits.
        loaders: The models to offer: for each name, a function that loads it. The first is the default.
        reviewed: A run of `propagate` to review. Its page then takes the place of the annotation page.
        tools: The annotation tools that this server predicts points for.
    """
    state = ServerState(settings, loaders)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        eviction = asyncio.create_task(state.evict_periodically())
        yield
        for tool in tools:
            tool.close()
        eviction.cancel()
        with suppress(asyncio.CancelledError):
            await eviction

    # No docs_url, redoc_url: FastAPI's documentation pages load scripts from other sites. Tools read openapi.json.
    app = FastAPI(title="mambamatcher", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.server = state
    MultiPartParser.spool_max_size = settings.request_bytes  # otherwise uploads above 1 MB are written to disk
    app.add_middleware(Guard, state=state)
    app.add_exception_handler(MambaMatcherError, _answer_package_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(Exception, _answer_internal_error)
    # Only documents the token in openapi.json; the guard has already checked it.
    bearer = Depends(HTTPBearer(auto_error=False, description="The token of `mambamatcher serve --token`."))
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorResponse, "description": text} for status, text in ERRORS.items()
    }
    app.state.review = reviewed
    app.state.tools = {type(tool): tool for tool in tools}
    first = () if reviewed is None else (review.start, review.router)  # of two routes for a path, the first answers
    for router in (*first, api.router, page.router, *(tool.router for tool in tools)):
        app.include_router(router, responses=responses, dependencies=[bearer])
    app.mount("/static", page.static_files, name="static")
    return app


async def _answer_package_error(_: Request, error: Exception) -> JSONResponse:
    """Answer 400 where the client can correct its request, else 503."""
    correctable = isinstance(error, InputError | ConfigError)
    return JSONResponse({"detail": str(error)}, 400 if correctable else 503)


async def _answer_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"detail": f"{field}: {first['msg']}"[:MAX_DETAIL_LENGTH]}, 422)


async def _answer_internal_error(_: Request, __: Exception) -> JSONResponse:
    """Answer 500 outside the guard, so with its headers; the server logs the error itself."""
    return JSONResponse({"detail": "the server failed; its log says why"}, 500, HEADERS)
