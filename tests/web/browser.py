"""A server and a real browser for the tests, and where their screenshots go."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Locator, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = Path(__file__).parents[2] / "docs" / "screenshots"


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def shoot(page: Page, name: str, whole: bool = False) -> None:
    """Refresh a picture of the documentation, where that is asked for."""
    if os.environ.get("REFRESH_SCREENSHOTS"):
        SCREENSHOTS.mkdir(exist_ok=True)
        if whole:  # what floats over the page would lie in its middle
            page.locator("#status").evaluate("status => { status.textContent = ''; }")
        page.screenshot(path=SCREENSHOTS / f"{name}.jpg", type="jpeg", quality=88, full_page=whole)


def place(frame: Locator, x: float, y: float) -> dict[str, float]:
    """Return the position in a frame of a point given as parts of its width and height."""
    box = frame.bounding_box()
    assert box is not None
    return {"x": x * box["width"], "y": y * box["height"]}


def drag(page: Page, marker: Locator, by: tuple[float, float]) -> None:
    box = marker.locator(".disc").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0] / 2, y + by[1] / 2)
    page.mouse.move(x + by[0], y + by[1])
    page.mouse.up()


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
