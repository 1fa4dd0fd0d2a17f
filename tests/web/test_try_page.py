"""The page that needs no server, in a real browser: served as files under a sub-path, and then without a network."""

import json
import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from mambamatcher.matching.confidence import load_calibration
from mambamatcher.model.saved import SHIPPED
from mambamatcher.web.page import PHOTOS
from tests.helpers import noise_file
from tests.web.browser import (
    EYE,
    LEFT_EAR,
    MARKS,
    MOUTH,
    NOSE,
    RIGHT_EAR,
    confirm,
    expect,
    found,
    kept,
    mark,
    place,
    position,
    shoot,
    source_of,
    target_of,
)
from tests.web.static_host import hosting
from tests.web.test_browser_page import PHONE

pytestmark = MARKS


def load_example(page, name="Try the example"):
    expect(page.locator("#model")).to_be_enabled()  # from then on the page handles clicks
    page.get_by_role("button", name=name).click()
    expect(target_of(page)).to_be_visible()
    return page


def test_clicks_show_matches_names_and_the_heat_map(try_page):
    page = load_example(try_page())
    mark(page, LEFT_EAR, RIGHT_EAR, MOUTH, EYE, NOSE)
    x, y = position(page, 5)
    assert abs(x - 0.606) < 0.1
    assert abs(y - 0.59) < 0.1
    expect(page.locator("#target .marker.selected .tag")).to_have_text(re.compile(r"\d+%"))
    assert page.locator("#target canvas").evaluate("canvas => canvas.width") == 24
    page.get_by_label("Name of point 5").fill("nose")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name of point 5")).to_have_value("nose")
    expect(page.locator("#threshold-value")).to_have_text(f"{load_calibration(SHIPPED['lite']).threshold:.0%}")
    page.evaluate("scrollTo(0, 0)")
    shoot(page, "try")


def test_a_reload_loses_nothing_and_the_next_click_is_answered(try_page):
    page = load_example(try_page())
    mark(page, NOSE)
    before = position(page, 1)
    kept(page)
    page.reload()
    expect(found(page)).to_have_count(1)
    assert position(page, 1) == before
    mark(page, LEFT_EAR)  # of images that the worker never had


def test_the_page_fits_a_phone_and_works_by_touch(try_page):
    page = load_example(try_page(**PHONE), "Try two portraits")
    for number, point in enumerate([(0.5, 0.45), (0.4, 0.35), (0.6, 0.35)], 1):
        source_of(page).tap(position=place(source_of(page), *point))
        expect(found(page)).to_have_count(number)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]


def test_points_and_an_image_of_the_matches_are_downloaded(try_page):
    page = load_example(try_page())
    mark(page, NOSE)
    page.get_by_label("Name of point 1").fill("nose")
    page.keyboard.press("Tab")

    def download(choice):
        page.locator("#downloads summary").click()
        with page.expect_download() as downloaded:
            page.get_by_role("button", name=choice).click()
        return Path(downloaded.value.path())

    points = json.loads(download("Points as JSON").read_text(encoding="utf-8"))["images"]
    assert [points[name]["names"] for name in ("cat.jpg", "raccoon.jpg")] == [["nose"], ["nose"]]
    expect(page.locator("#points tbody tr")).to_contain_text(
        ", ".join(f"{x:.1f}" for x in points["raccoon.jpg"]["points"][0])
    )
    assert Image.open(download("Image of the matches")).size == (722 + 12 + 640, 480 + 28)


def test_nothing_is_sent_and_the_policy_would_refuse_it(browser, static_host, tmp_path):
    with browser.new_context() as context, hosting(tmp_path) as elsewhere:
        page = context.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request))
        page.goto(f"{static_host.address}/some/where/try/")
        load_example(page)
        page.locator("#targets input[multiple]").set_input_files([upload("own.png", noise_file())])
        mark(page, NOSE)
        assert all(request.method == "GET" and request.post_data is None for request in asked)
        assert all(request.url.startswith((static_host.address, "blob:")) for request in asked)
        assert {(method, size) for method, _, size in static_host.asked} == {("GET", 0)}
        send = "(address) => fetch(address, { mode: 'no-cors' }).then(() => 'sent', () => 'refused')"
        for running in (page, page.workers[0]):
            assert running.evaluate(send, elsewhere.address) == "refused"
        assert not elsewhere.asked


def upload(name, content):
    return {"name": name, "mimeType": "image/png", "buffer": content}


def test_the_loaded_page_works_without_a_network(try_page):
    page = load_example(try_page())
    mark(page, NOSE)
    page.context.set_offline(True)
    page.get_by_role("button", name="Start over").click()
    confirm(page, "Start over")
    load_example(page, "Try two portraits")
    mark(page, (0.5, 0.45))
    page.locator("#targets input[multiple]").set_input_files([upload("own.png", noise_file())])
    expect(page.locator("#targets li")).to_have_count(2)
    page.get_by_role("button", name="Propagate to 2 targets").click()
    expect(page.locator("#targets .chip", has_text="%")).to_have_count(2)


def test_a_damaged_image_is_explained_and_the_points_stay(try_page):
    page = load_example(try_page())
    mark(page, NOSE)
    damaged = {
        "notes.png": b"not an image",
        "empty.png": b"",
        "cut.jpg": (PHOTOS / "cat.jpg").read_bytes()[:9000],
        "drawing.svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
    }
    for name, content in damaged.items():
        page.locator("#targets input[multiple]").set_input_files([upload(name, content)])
        expect(page.get_by_role("alert").filter(has_text=f"{name} is not a readable image")).to_be_visible()
        page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#targets li")).to_have_count(1)
    expect(found(page)).to_have_count(1)


def test_an_image_with_too_many_pixels_is_refused(try_page):
    encoded = BytesIO()
    Image.new("L", (8000, 6000)).save(encoded, "PNG")
    page = try_page()
    page.locator("#source .empty input").set_input_files([upload("huge.png", encoded.getvalue())])
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile("huge.png has 8000 . 6000 pixels, more than the 40 million")
    )


def test_images_can_be_pasted(try_page):
    page = try_page()
    paste = """(bytes) => {
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File([new Uint8Array(bytes)], "image.png", { type: "image/png" }));
        dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
    }"""
    page.evaluate(paste, list(noise_file()))
    expect(source_of(page)).to_be_visible()
    page.evaluate(paste, list(noise_file()))
    expect(target_of(page)).to_be_visible()
    mark(page, (0.5, 0.5))
    assert position(page) == pytest.approx((0.5, 0.5), abs=0.02)  # the image is found in itself


def test_a_model_that_does_not_arrive_is_reported(browser, static_host):
    with browser.new_context() as context:
        context.route("**/model.safetensors", lambda route: route.abort())
        page = context.new_page()
        page.goto(f"{static_host.address}/some/where/try/")
        load_example(page)
        expect(page.get_by_role("alert")).to_contain_text("model.safetensors could not be loaded. Check the connection")
