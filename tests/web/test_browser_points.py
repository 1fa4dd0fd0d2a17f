"""Points on the page, in a real browser: mark, correct, delete, propagate, download."""

import csv
import json
import re
from io import BytesIO

import pytest
from PIL import Image

from mambamatcher.web.page import PHOTOS
from tests.helpers import wait_until
from tests.web.browser import (
    LEFT_EAR,
    MARKS,
    NOSE,
    RIGHT_EAR,
    confirm,
    download,
    drag,
    expect,
    found,
    mark,
    position,
    shoot,
    source_of,
)

pytestmark = MARKS


def add_targets(page, count):
    files = []
    for number in range(count):
        encoded = BytesIO()
        margin = 20 * number
        image = Image.open(PHOTOS / ("cat.jpg" if number % 2 else "raccoon.jpg"))
        image.crop((margin, 2 * margin, image.width - margin, image.height)).save(encoded, "PNG")
        files.append({"name": f"crop-{number}.png", "mimeType": "image/png", "buffer": encoded.getvalue()})
    page.locator("#targets input[multiple]").set_input_files(files)


def test_a_click_on_the_source_shows_the_match_its_confidence_and_the_heat_map(example):
    page = example()
    mark(page, LEFT_EAR)
    mark(page, NOSE)
    x, y = position(page, 2)
    assert abs(x - 0.606) < 0.1
    assert abs(y - 0.59) < 0.1
    expect(page.locator("#target .marker.selected .tag")).to_have_text(re.compile(r"\d+%"))
    expect(page.locator("#target canvas")).to_be_visible()
    assert page.locator("#target canvas").evaluate("canvas => canvas.width") > 4
    expect(page.locator("#points tbody tr").nth(1)).to_contain_text("%")
    page.keyboard.press("h")
    expect(page.locator("#target canvas")).to_be_hidden()


def test_the_match_moves_with_the_point_on_the_source(example):
    page = example()
    mark(page, LEFT_EAR)
    before = position(page)
    frame = source_of(page).bounding_box()
    drag(page, page.locator("#source .marker"), (-0.66 * frame["width"], -0.11 * frame["height"]))
    wait_until(lambda: found(page).count() == 1 and position(page)[0] < before[0] - 0.2)


def test_a_match_dragged_elsewhere_is_corrected_and_undone(example):
    page = example()
    mark(page, NOSE)
    before = position(page)
    drag(page, found(page), (-60, 40))
    expect(page.locator("#points tbody tr")).to_contain_text("corrected")
    moved = position(page)
    assert moved[0] < before[0] - 0.05
    page.keyboard.press("Control+z")
    wait_until(lambda: position(page) == before)
    expect(page.locator("#points tbody tr")).not_to_contain_text("corrected")
    page.keyboard.press("Control+z")
    expect(found(page)).to_have_count(0)


def test_deleted_points_are_restored_by_undo(example):
    page = example()
    mark(page, NOSE, LEFT_EAR, RIGHT_EAR)
    page.get_by_role("button", name="Delete point 2").click()
    expect(found(page)).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(found(page)).to_have_count(3)
    page.get_by_role("button", name="Clear points").click()
    expect(found(page)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(found(page)).to_have_count(3)


def test_points_are_propagated_to_every_target(example):
    page = example()
    mark(page, NOSE, RIGHT_EAR, LEFT_EAR)
    add_targets(page, 3)
    expect(page.locator(".strip li")).to_have_count(4)
    expect(page.locator(".chip").nth(3)).to_have_text("0 of 3")
    page.get_by_role("button", name="Propagate to 4 targets").click()
    expect(page.locator(".chip").nth(3)).to_have_text(re.compile(r"\d+%"))
    expect(page.locator("#status")).to_contain_text("Propagated 3 points to 4 of 4 targets")
    page.locator(".thumb").nth(3).click()
    expect(page.locator("#target .file-name")).to_contain_text("crop-2.png")
    expect(found(page)).to_have_count(3)
    shoot(page, "propagate", whole=True)
    page.get_by_role("button", name="Remove crop-2.png").click()
    confirm(page, "Remove the target")
    expect(page.locator(".strip li")).to_have_count(3)
    expect(page.locator("#target .file-name")).to_contain_text("crop-1.png")


def test_points_and_an_image_of_the_matches_are_downloaded(example):
    page = example()
    mark(page, NOSE, RIGHT_EAR)
    page.get_by_label("Name of point 1").fill("nose")
    page.get_by_label("Name of point 1").press("Enter")
    found_nose = position(page)
    drag(page, page.locator("#target .marker[data-point='2']"), (40, 40))
    expect(page.locator("#points tbody tr").nth(1)).to_contain_text("corrected")

    name, content = download(page, "COCO")
    coco = json.loads(content)
    assert name == "points.coco.json"
    assert coco["categories"][0]["keypoints"] == ["nose", "2"]
    assert [image["file_name"] for image in coco["images"]] == ["cat.jpg", "raccoon.jpg"]
    assert coco["annotations"][0]["num_keypoints"] == 2
    name, content = download(page, "CSV")
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert (name, len(rows)) == ("points.csv", 4)
    assert float(rows[2]["x"]) == pytest.approx(800 * found_nose[0], abs=2)
    assert (float(rows[3]["confidence"]), rows[3]["visibility"]) == (1, "2")  # corrected by hand
    name, content = download(page, "JSON")
    assert name == "points.json"
    assert set(json.loads(content)["images"]) == {"cat.jpg", "raccoon.jpg"}
    name, content = download(page, "Image of the matches")
    assert name == "matches.png"
    assert Image.open(BytesIO(content)).width > 900


def test_choosing_another_model_matches_the_points_again(example):
    page = example()
    mark(page, NOSE, LEFT_EAR)
    with page.expect_response("**/pairs/match") as answer:
        page.locator("#model").select_option("nearest")
    assert answer.value.json()["model"] == "nearest"
    assert len(answer.value.json()["matches"]) == 2


def test_points_are_marked_and_corrected_by_keyboard(visit):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()

    def tab_to(selector):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.locator(selector).evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    tab_to(".example")
    page.keyboard.press("Enter")
    expect(source_of(page)).to_be_visible()
    tab_to("#source .frame")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowUp")
    expect(page.locator("#source .crosshair")).to_be_visible()
    page.keyboard.press("Enter")
    expect(found(page)).to_have_count(1)
    assert position(page, 1, "source") == pytest.approx((0.7, 0.489), abs=0.01)
    expect(page.locator("#position")).to_contain_text("Point 1:")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(found(page)).to_have_count(2)
    page.keyboard.press(",")
    tab_to("#target .frame")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#points tbody tr").first).to_contain_text("corrected")
    assert position(page, 1) == pytest.approx((0.5, 0.51), abs=0.01)
    shoot(page, "keyboard")
    page.keyboard.press("Control+z")
    expect(page.locator("#points tbody tr").first).not_to_contain_text("corrected")
    page.keyboard.press("Delete")
    expect(found(page)).to_have_count(1)
