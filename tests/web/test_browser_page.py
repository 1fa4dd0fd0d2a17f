"""The page as a whole, in a real browser: uploads, layout, errors, sign-in."""

import re
from io import BytesIO

import pytest
from PIL import Image

from mambamatcher.web.page import PHOTOS
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.helpers import noise_file, wait_until
from tests.web.browser import (
    EYE,
    LEFT_EAR,
    MARKS,
    MOUTH,
    NOSE,
    RIGHT_EAR,
    expect,
    found,
    mark,
    place,
    serving,
    shoot,
    source_of,
)

pytestmark = MARKS
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def test_the_empty_page_explains_what_to_do(visit):
    page = visit()
    expect(page).to_have_title("MambaMatcher")
    expect(page.get_by_text("Mark a point on one object")).to_be_visible()
    expect(page.locator("#model")).to_be_enabled()
    expect(page.locator(".tools")).to_be_hidden()
    shoot(page, "empty")


def test_a_file_that_is_not_an_image_is_explained_and_the_points_stay(example):
    page = example()
    mark(page, NOSE)
    notes = {"name": "notes.png", "mimeType": "image/png", "buffer": b"not an image"}
    page.locator("#targets input[multiple]").set_input_files([notes])
    expect(page.get_by_role("alert").filter(has_text="notes.png is not a readable image")).to_be_visible()
    expect(found(page)).to_have_count(1)
    shoot(page, "problem")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#problem")).to_be_hidden()


def test_the_page_fits_a_phone_and_works_by_touch(example):
    page = example(**PHONE)
    for point in (NOSE, RIGHT_EAR, EYE):
        count = found(page).count()
        source_of(page).tap(position=place(source_of(page), *point))
        expect(found(page)).to_have_count(count + 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for button in page.locator("button:visible, .button:visible").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    shoot(page, "phone", whole=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_light_or_dark_setting(example, scheme):
    page = example(color_scheme=scheme)
    mark(page, NOSE, LEFT_EAR, RIGHT_EAR, MOUTH, EYE)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground))) / 3
    assert (brightness > 200) == (scheme == "light")
    shoot(page, scheme)


def test_dropped_images_are_shown_upright(visit):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()
    rotation = Image.Exif()
    rotation[0x0112] = 6  # 90 degrees
    drop = """(element, files) => {
        const transfer = new DataTransfer();
        for (const [name, bytes] of files) {
            transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
        }
        element.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    files = [
        ["rotated.jpg", list(noise_file(60, 40, "JPEG", exif=rotation))],
        ["b.jpg", list(noise_file(80, 50, "JPEG"))],
    ]
    page.locator("#source").evaluate(drop, files)
    expect(page.locator("#source .file-name")).to_contain_text("rotated.jpg")
    expect(page.locator("#target .file-name")).to_contain_text("b.jpg")
    size = "image => [image.naturalWidth, image.naturalHeight]"
    wait_until(lambda: page.locator("#source .frame img").evaluate(size) == [40, 60])
    mark(page, (0.5, 0.5))


def test_two_uploaded_photos_are_matched(visit):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()
    files = []
    for name in ("raccoon.jpg", "cat.jpg"):
        encoded = BytesIO()
        Image.open(PHOTOS / name).resize((1600, 1200)).save(encoded, "JPEG")
        files.append({"name": name, "mimeType": "image/jpeg", "buffer": encoded.getvalue()})
    page.locator("#target input[multiple]").set_input_files(files[:1])
    page.locator("#source .empty input").set_input_files(files[1])
    expect(source_of(page)).to_be_visible()
    mark(page, NOSE)


def test_the_page_retries_while_the_server_is_busy(example, app):
    page = example()
    mark(page, NOSE)
    workers = app.state.server.workers
    limit, workers.max_requests = workers.max_requests, 0
    try:
        source_of(page).click(position=place(source_of(page), *RIGHT_EAR))
        expect(page.locator("#status")).to_contain_text("busy")
        shoot(page, "busy")
    finally:
        workers.max_requests = limit
    expect(found(page)).to_have_count(2)


def test_a_server_that_does_not_respond_is_reported(example):
    page = example()
    page.route("**/pairs/match", lambda route: route.abort())
    source_of(page).click(position=place(source_of(page), *NOSE))
    expect(page.locator("#problem")).to_contain_text("does not respond")


def test_the_token_is_asked_for_or_taken_from_the_address(visit, app):
    token = "a long enough secret"
    guarded = create_app(Settings(token=token), {"default": lambda: app.state.server.models.get("default")})
    with serving(guarded) as address:
        page = visit(at=address)
        expect(page.locator("#signin")).to_be_visible()
        page.locator("#token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#signin .wrong")).to_contain_text("not the server's token")
        page.locator("#token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#model")).to_be_enabled()
        page.get_by_role("button", name="Try the example").click()
        expect(source_of(page)).to_be_visible()
        mark(page, NOSE)
        other = visit(f"/#token={token.replace(' ', '%20')}", at=address)
        expect(other.locator("#model")).to_be_enabled()
        assert token not in other.url
