"""The application: what it is made of. The routes are in `api.py` and `page.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
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
from mambamatcher.web import api, page
from mambamatcher.web.guard import Guard
from mambamatcher.web.models import Models
from mambamatcher.web.schemas import Problem
from mambamatcher.web.service import Service
from mambamatcher.web.sessions import SessionStore
from mambamatcher.web.settings import Settings
from mambamatcher.web.work import Work

PROBLEMS = {
    400: "Pictures or points that cannot be used.",
    401: "The server's token is missing or wrong.",
    403: "Asked by a page of another site.",
    404: "Not there, or not this client's.",
    413: "Too large.",
    421: "Asked under a name that is not the server's.",
    422: "Fields that are missing or of the wrong kind.",
    503: "Busy; Retry-After says for how long.",
}


def create_app(settings: Settings, loaders: Mapping[str, Callable[[], Matcher]]) -> FastAPI:
    """Make the application; `loaders` are the models it offers, the default first."""
    service = Service(
        settings=settings,
        models=Models(loaders),
        sessions=SessionStore(settings.stored_bytes, settings.keep_seconds),
        work=Work(settings.requests, settings.receiving_bytes),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        forgetting = asyncio.create_task(service.forget_in_time())
        yield
        forgetting.cancel()
        with suppress(asyncio.CancelledError):
            await forgetting

    # the interactive documentation of FastAPI loads scripts from elsewhere; openapi.json is what other tools read
    app = FastAPI(title="mambamatcher", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    MultiPartParser.spool_max_size = settings.request_bytes  # else pictures above 1 MB are written to disk
    app.add_middleware(Guard, settings=settings, sessions=service.sessions, work=service.work)
    app.add_exception_handler(MambaMatcherError, _say_what_was_wrong)
    app.add_exception_handler(RequestValidationError, _say_what_was_invalid)
    # the guard has checked the token by then; here it is only said that there may be one
    bearer = Depends(HTTPBearer(auto_error=False, description="The token of `mambamatcher serve --token`."))
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": text} for status, text in PROBLEMS.items()
    }
    for router in (api.router, page.router):
        app.include_router(router, responses=problems, dependencies=[bearer])
    app.mount("/static", page.static_files, name="static")
    return app


async def _say_what_was_wrong(_: Request, error: Exception) -> JSONResponse:
    mendable = isinstance(error, InputError | ConfigError)
    return JSONResponse({"detail": str(error)}, 400 if mendable else 503)


async def _say_what_was_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)
