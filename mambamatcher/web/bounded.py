"""Requests whose JSON and forms are bounded before they are validated."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

MAX_OBJECTS = 20_000  # about as many points as fit into the largest body
MAX_OBJECT_FIELDS = 20  # several times those of any schema
MAX_FORM_FIELDS = 20
MAX_FIELD_BYTES = 64 * 1024  # of a form; 500 points need about 20,000


class BoundedRequest(Request):
    """A request that refuses JSON with duplicate keys or many fields, and forms of many or large fields."""

    max_objects = MAX_OBJECTS
    max_fields = MAX_OBJECT_FIELDS

    async def json(self) -> Any:
        """Parse the body as JSON, in a thread, so that hostile bodies do not stop the event loop."""
        return await asyncio.to_thread(parse_json, await self.body(), self.max_objects, self.max_fields)

    def form(self, **_: Any) -> Any:
        """Parse the body as a form."""
        files = self.app.state.server.settings.targets + 2
        return super().form(max_files=files, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)


class ToolRequest(BoundedRequest):
    """A request of an annotation tool, which sends more about a task than is used here."""

    max_objects = 200_000
    max_fields = 200


class BoundedRoute(APIRoute):
    """A route that hands bounded requests to FastAPI."""

    request_class: type[BoundedRequest] = BoundedRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            return await handle(self.request_class(request.scope, request.receive))

        return handle_bounded


class ToolRoute(BoundedRoute):
    """A route for annotation tools."""

    request_class = ToolRequest


def parse_json(text: bytes, max_objects: int = MAX_OBJECTS, max_fields: int = MAX_OBJECT_FIELDS) -> Any:
    """Parse JSON.

    Args:
        text: The JSON, in UTF-8.
        max_objects: Limit on the objects in it.
        max_fields: Limit on the keys of each.

    Raises:
        HTTPException: An object has a key twice or too many keys, or the text is too complex.
        json.JSONDecodeError: The text is not JSON.
    """
    objects = 0

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal objects
        objects += 1
        if objects > max_objects or len(pairs) > max_fields:
            raise HTTPException(422, "the body has more objects or fields than any route knows")
        unique = dict(pairs)
        if len(unique) < len(pairs):
            raise HTTPException(422, "an object of the body has the same key twice; send each key once")
        return unique

    try:
        return json.loads(text, object_pairs_hook=to_object)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        raise HTTPException(422, "the body is not UTF-8, is nested too deeply or has too long a number") from error
