"""A server, a real browser and steps on the page, for the browser tests. They also take the screenshots of the docs."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

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
MARKS = [
    pytest.mark.web,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium; make test-web installs it"),
]
# on the cat, as fractions of its width and height
NOSE, LEFT_EAR, RIGHT_EAR, MOUTH, EYE = (0.585, 0.793), (0.812, 0.14), (0.151, 0.027), (0.568, 0.9), (0.377, 0.387)

expect.set_options(timeout=60_000)  # only ends a test that hangs


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serve an application, by default on a free port; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def launched_browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def shoot(page: Page, name: str, whole: bool = False) -> None:
    """Take a screenshot for the documentation if `REFRESH_SCREENSHOTS` is set."""
    if os.environ.get("REFRESH_SCREENSHOTS"):
        SCREENSHOTS.mkdir(exist_ok=True)
        if whole:  # the floating status would cover the middle of the page
            page.locator("#status").evaluate("status => { status.textContent = ''; }")
        shown = "[...document.querySelectorAll('.frame img[src]')].every((image) => image.complete && !image.hidden)"
        page.wait_for_function(shown)
        page.screenshot(path=SCREENSHOTS / f"{name}.jpg", type="jpeg", quality=88, full_page=whole)


def source_of(page: Page) -> Locator:
    return page.locator("#source .frame")


def target_of(page: Page) -> Locator:
    return page.locator("#target .frame")


def found(page: Page) -> Locator:
    return page.locator("#target .marker")


def place(frame: Locator, x: float, y: float) -> dict[str, float]:
    """Convert fractions of a frame's width and height to a position in it."""
    box = frame.bounding_box()
    assert box is not None
    return {"x": x * box["width"], "y": y * box["height"]}


def mark(page: Page, *points: tuple[float, float]) -> None:
    """Click points on the source, each after the match of the one before has appeared."""
    for point in points:
        count = found(page).count()
        source_of(page).click(position=place(source_of(page), *point))
        expect(found(page)).to_have_count(count + 1)


def position(page: Page, number: int = 1, side: str = "target") -> tuple[float, float]:
    """Return where a point is on display, as fractions of the frame's width and height."""
    box = page.locator(f"#{side} .marker[data-point='{number}'] .disc").bounding_box()
    frame = page.locator(f"#{side} .frame").bounding_box()
    assert box is not None
    assert frame is not None
    return (
        (box["x"] + box["width"] / 2 - frame["x"]) / frame["width"],
        (box["y"] + box["height"] / 2 - frame["y"]) / frame["height"],
    )


def confirm(page: Page, action: str) -> None:
    """Answer the question that the page asks before it throws something away."""
    dialog = page.locator("#confirm")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name=action).click()
    expect(dialog).to_be_hidden()


def kept(page: Page) -> None:
    """Wait until the browser has written the session down."""
    expect(page.locator("#kept")).to_have_text("Kept in this browser")


def download(page: Page, item: str) -> tuple[str, bytes]:
    """Download a file by its entry in the menu; returns its name and content."""
    page.locator("#downloads summary").click()
    with page.expect_download() as started:
        page.get_by_role("button", name=item).click()
    return started.value.suggested_filename, started.value.path().read_bytes()


def drag(page: Page, marker: Locator, by: tuple[float, float]) -> None:
    box = marker.locator(".disc").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0] / 2, y + by[1] / 2)
    page.mouse.move(x + by[0], y + by[1])
    page.mouse.up()
