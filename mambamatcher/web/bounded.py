"""Requests whose JSON and forms are bounded before they are validated."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

MAX_OBJECT_FIELDS = 20  # several times those of any schema
MAX_FORM_FIELDS = 20
MAX_FIELD_BYTES = 64 * 1024  # of a form; 500 points need about 20,000


class BoundedRequest(Request):
    """A request that refuses JSON with duplicate keys or many fields, and forms of many or large fields."""

    async def json(self) -> Any:
        """Parse the body as JSON, in a thread: up to a second for a hostile body of the largest size."""
        return await asyncio.to_thread(parse_json, await self.body())

    def form(self, **_: Any) -> Any:
        """Parse the body as a form."""
        files = self.app.state.server.settings.targets + 2
        return super().form(max_files=files, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)


class BoundedRoute(APIRoute):
    """A route that hands bounded requests to FastAPI."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            return await handle(BoundedRequest(request.scope, request.receive))

        return handle_bounded


def parse_json(text: bytes) -> Any:
    """Parse JSON.

    Raises:
        HTTPException: An object has a key twice or too many keys, or the nesting is too deep.
        json.JSONDecodeError: The text is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_to_object)
    except (RecursionError, UnicodeDecodeError) as error:
        raise HTTPException(422, f"the body is not usable JSON: {error}") from error


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_OBJECT_FIELDS:
        raise HTTPException(422, f"an object of the body has {len(pairs)} fields, more than any route knows")
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise HTTPException(422, "an object of the body has the same key twice; send each key once")
    return unique
