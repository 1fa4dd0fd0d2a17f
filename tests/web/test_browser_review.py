"""The review page, in a real browser: a run of `propagate` is corrected with keys, mouse and touch, and repeated."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from mambamatcher.jobs.source import read_source
from mambamatcher.tools.propagate import propagate, read_references
from mambamatcher.tools.reviewing import ReviewedRun
from mambamatcher.web.page import PHOTOS
from mambamatcher.web.review import Review
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.helpers import wait_until
from tests.web.browser import MARKS, drag, expect, position, serving, shoot

pytestmark = MARKS
SKELETON = [("nose", "left eye"), ("nose", "right eye"), ("left eye", "left ear"), ("right eye", "right ear")]
TABLET = {"viewport": {"width": 820, "height": 1180}, "has_touch": True, "is_mobile": True}
HOSTILE = '<img src=x onerror=alert(1)> "a\n.jpg'


@pytest.fixture(scope="module")
def finished(app, tmp_path_factory):
    """A finished run: six points of a cat on four images."""
    folder = tmp_path_factory.mktemp("review")
    targets = folder / "targets"
    targets.mkdir()
    for name in ("raccoon.jpg", "grace-hopper.jpg", "eileen-collins.jpg"):
        shutil.copy(PHOTOS / name, targets)
    Image.open(PHOTOS / "cat.jpg").rotate(12).save(targets / "turned-cat.jpg")
    matcher = app.state.server.models.get("default")
    references = read_references(matcher, [PHOTOS / "cat.jpg"], PHOTOS / "cat.json")
    propagate(matcher, references, read_source(targets), folder / "annotated")
    return folder / "annotated"


@pytest.fixture
def out(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "annotated")


@pytest.fixture
def review(visit, app, out):
    """Return a function that opens the review page of a copy of the run."""
    opened = []

    def open_page(at=None, **options):
        if not opened:
            run = Review(ReviewedRun(out), SKELETON)
            serve = serving(create_app(Settings(), {"model": lambda: app.state.server.models.get("default")}, run))
            opened.append((serve, serve.__enter__()))
        page = visit(at=opened[0][1], **options)
        expect(page.locator("body[data-ready]")).to_be_attached()
        return page

    yield open_page
    for serve, _ in opened:
        serve.__exit__(None, None, None)


def corrections(out):
    return json.loads((out / "corrections.json").read_text())["images"]


def saved(page):
    expect(page.locator("#saved")).to_have_text("Saved")


def current(page):
    return page.locator("#images button[aria-current=true] .text")


def test_a_run_is_reviewed_with_keys_only(review, out):
    page = review()
    results = [json.loads(line) for line in (out / "points.jsonl").read_text().splitlines()[1:]]
    sure = {each["image"]: np.mean([point["confidence"] for point in each["points"]]) for each in results}
    order = sorted(sure, key=sure.get)
    assert page.locator("#images .text").all_inner_texts() == order
    expect(current(page)).to_have_text(order[0])
    expect(page.locator("#target .marker")).to_have_count(6)
    expect(page.locator("#target .bone")).to_have_count(len(SKELETON))
    expect(page.locator("#reference .name")).to_have_count(6)
    found = {point["name"]: point for point in next(each for each in results if each["image"] == order[0])["points"]}
    worst = min(found.values(), key=lambda point: point["confidence"])
    expect(page.locator("#names button[aria-pressed=true] .text")).to_have_text(worst["name"])
    shoot(page, "review")

    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator("#names button[aria-pressed=true]")).to_contain_text("set")
    saved(page)
    side = max(next(each for each in results if each["image"] == order[0])["size"])
    moved = corrections(out)[order[0]]
    assert moved["status"] == "corrected"
    assert moved["points"] == {worst["name"]: pytest.approx([worst["x"] + side / 100, worst["y"] + side / 1000])}

    page.keyboard.press(".")
    absent = page.locator("#names button[aria-pressed=true] .text").inner_text()
    page.keyboard.press("x")
    expect(page.locator("#target .marker")).to_have_count(5)
    page.keyboard.press("a")
    expect(page.locator("#reviewed")).to_have_text("1 of 4 reviewed")
    saved(page)
    whole = corrections(out)[order[0]]
    assert whole["status"] == "corrected"
    assert whole["points"][absent] is None
    assert len(whole["points"]) == 6
    expect(current(page)).to_have_text(order[1])
    page.keyboard.press("n")
    page.keyboard.press("a")  # of the next target, though that may not be there yet
    expect(page.locator("#reviewed")).to_have_text("2 of 4 reviewed")
    saved(page)
    assert corrections(out)[order[2]]["status"] == "accepted"
    shoot(page, "review-corrected")

    for _ in range(4):  # accept, accept, absent, and the two moves as one
        page.keyboard.press("Control+z")
    expect(page.locator("#reviewed")).to_have_text("0 of 4 reviewed")
    saved(page)
    assert corrections(out) == {}
    page.keyboard.press("Control+Shift+Z")
    page.keyboard.press("Control+y")
    saved(page)
    assert corrections(out) == {order[0]: {"status": "corrected", "points": {**moved["points"], absent: None}}}


def test_points_are_dragged_and_corrections_survive_a_reload_and_a_restart(review, out, app, visit):
    page = review()
    name = current(page).inner_text()
    drag(page, page.locator("#target .marker[data-point='1']"), (40, 25))
    saved(page)
    before = position(page, 1)
    page.reload()
    expect(page.locator("body[data-ready]")).to_be_attached()
    assert position(page, 1) == pytest.approx(before, abs=0.005)
    assert list(corrections(out)) == [name]
    again = create_app(Settings(), {"model": lambda: app.state.server.models.get("default")}, Review(ReviewedRun(out)))
    with serving(again) as address:
        other = visit(at=address)
        expect(other.locator("body[data-ready]")).to_be_attached()
        assert position(other, 1) == pytest.approx(before, abs=0.005)
        expect(other.locator("#target .bone")).to_have_count(0)


def test_the_wheel_zooms_where_the_pointer_is_and_a_drag_pans(review):
    page = review()
    frame = page.locator("#target .frame").bounding_box()
    here = (frame["x"] + 0.25 * frame["width"], frame["y"] + 0.3 * frame["height"])
    page.mouse.move(*here)
    page.mouse.wheel(0, -600)
    zoomed = page.locator("#target .frame").bounding_box()
    assert zoomed["width"] > 2 * frame["width"]
    assert (here[0] - zoomed["x"]) / zoomed["width"] == pytest.approx(0.25, abs=0.01)
    assert (here[1] - zoomed["y"]) / zoomed["height"] == pytest.approx(0.3, abs=0.01)
    disc = page.locator("#target .marker .disc").first.bounding_box()
    assert disc["width"] == pytest.approx(21.5, abs=2)  # markers keep their size
    shoot(page, "review-zoomed")
    empty = (frame["x"] + 0.6 * frame["width"], frame["y"] + 0.8 * frame["height"])
    page.mouse.move(*empty)
    page.mouse.down()
    page.mouse.move(empty[0] - 40, empty[1] - 30, steps=4)
    page.mouse.up()
    panned = page.locator("#target .frame").bounding_box()
    assert (panned["x"] - zoomed["x"], panned["y"] - zoomed["y"]) == pytest.approx((-40, -30), abs=12)  # less its start
    page.keyboard.press("0")
    assert page.locator("#target .frame").bounding_box()["width"] == pytest.approx(frame["width"], abs=1)
    page.keyboard.press("+")
    assert page.locator("#target .frame").bounding_box()["width"] > frame["width"]


def test_a_point_is_moved_by_touch(review, out):
    page = review(**TABLET)
    name = current(page).inner_text()
    marker = page.locator("#target .marker[data-point='2'] .disc").bounding_box()
    x, y = marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2
    before = position(page, 2)
    session = page.context.new_cdp_session(page)
    for kind, at in [("touchStart", (x, y)), ("touchMove", (x + 20, y + 15)), ("touchMove", (x + 45, y + 30))]:
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": at[0], "y": at[1]}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    saved(page)
    after = position(page, 2)
    assert after[0] > before[0] + 0.03
    assert after[1] > before[1] + 0.02
    page.get_by_role("button", name="Accept").tap()
    expect(page.locator("#reviewed")).to_have_text("1 of 4 reviewed")
    expect(current(page)).not_to_have_text(name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 820
    shoot(page, "review-touch")


def test_a_round_keeps_corrections_and_computes_the_rest_again(review, out):
    page = review()
    expect(page.get_by_role("button", name="Repeat with corrections")).to_be_disabled()
    name = current(page).inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("a")
    saved(page)
    corrected = corrections(out)[name]
    page.get_by_role("button", name="Repeat with corrections").click()
    expect(page.locator("#status")).to_contain_text("Kept as corrected: 1.", timeout=60_000)
    shoot(page, "review-round")
    results = {line["image"]: line for line in map(json.loads, (out / "points.jsonl").read_text().splitlines()[1:])}
    assert results[name]["status"] == "corrected"
    kept = {point["name"]: [point["x"], point["y"]] for point in results[name]["points"]}
    assert kept == corrected["points"]
    expect(current(page)).not_to_have_text(name)
    expect(page.locator("#reviewed")).to_have_text("1 of 4 reviewed")
    assert corrections(out)[name] == corrected


def test_a_correction_waits_until_the_server_is_back(review, out):
    page = review()
    page.context.set_offline(True)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#saved")).to_contain_text("Not saved")
    assert not (out / "corrections.json").exists()
    page.context.set_offline(False)
    saved(page)
    assert len(corrections(out)) == 1


def test_names_with_markup_are_shown_as_text(review):
    page = review()

    def rename(route):
        answer = route.fetch()
        run = answer.json()
        run["targets"][0]["name"] = HOSTILE
        route.fulfill(response=answer, json=run)

    page.route("**/review/run", rename)
    page.reload()
    wait_until(lambda: "onerror" in page.locator("#target .file-name").inner_text())
    expect(page.locator("img[src=x]")).to_have_count(0)
