"""The page in a real browser, as a user has it. `REFRESH_SCREENSHOTS=1 make test-web` renews docs/screenshots."""

import csv
import json
import re
import time
from io import BytesIO

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")

from PIL import Image  # noqa: E402

from mambamatcher.matching.matcher import Matcher  # noqa: E402
from mambamatcher.web.page import PHOTOS  # noqa: E402
from mambamatcher.web.server import create_app  # noqa: E402
from mambamatcher.web.settings import Settings  # noqa: E402
from tests.web.browser import ARGUMENTS, CHROMIUM, drag, place, serving, shoot, until  # noqa: E402
from tests.web.conftest import picture  # noqa: E402

pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium; make test-web installs it"),
]
expect = playwright.expect
expect.set_options(timeout=20_000)  # a machine with other work is slow, not wrong
# on the cat, as parts of its width and height
NOSE, LEFT_EAR, RIGHT_EAR, MOUTH, EYE = (0.585, 0.793), (0.812, 0.14), (0.151, 0.027), (0.568, 0.9), (0.377, 0.387)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


@pytest.fixture(scope="session")
def app():
    matcher = Matcher.from_pretrained()
    app = create_app(Settings(), {"default": lambda: matcher, "nearest": lambda: Matcher.from_preset("nearest")})
    app.state.service.warm_up()
    return app


@pytest.fixture(scope="session")
def address(app):
    with serving(app) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Return a function that opens the page; what the page complains of fails the test."""
    complaints, contexts = [], []

    def open_page(path="/", at=None, **options):
        context = browser.new_context(**({"viewport": DESKTOP} | options))
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else 0)
        allowed = (at or address, "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(allowed) else complaints.append(asked.url))
        page.goto((at or address) + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def example(visit):
    """Return a function that opens the page with the example loaded."""

    def load(**options):
        page = visit(**options)
        page.get_by_role("button", name="Try the example").click()
        expect(source_of(page)).to_be_visible()
        expect(target_of(page)).to_be_visible()
        return page

    return load


def source_of(page):
    return page.locator("#source .frame")


def target_of(page):
    return page.locator("#target .frame")


def found(page):
    return page.locator("#target .marker")


def mark(page, *points):
    for point in points:
        count = found(page).count()
        source_of(page).click(position=place(source_of(page), *point))
        expect(found(page)).to_have_count(count + 1)


def position(page, number=1, side="target"):
    box = page.locator(f"#{side} .marker[data-point='{number}'] .disc").bounding_box()
    frame = page.locator(f"#{side} .frame").bounding_box()
    return ((box["x"] + box["width"] / 2 - frame["x"]) / frame["width"],
            (box["y"] + box["height"] / 2 - frame["y"]) / frame["height"])  # fmt: skip


def add_targets(page, count):
    files = []
    for number in range(count):
        encoded = BytesIO()
        margin = 20 * number
        image = Image.open(PHOTOS / ("cat.jpg" if number % 2 else "raccoon.jpg"))
        image.crop((margin, 2 * margin, image.width - margin, image.height)).save(encoded, "PNG")
        files.append({"name": f"crop-{number}.png", "mimeType": "image/png", "buffer": encoded.getvalue()})
    page.locator("#targets input[multiple]").set_input_files(files)


def test_the_empty_page_says_what_to_do(visit):
    page = visit()
    expect(page).to_have_title("MambaMatcher")
    expect(page.get_by_text("Mark a point on one object")).to_be_visible()
    expect(page.locator("#model")).to_be_enabled()
    expect(page.locator(".tools")).to_be_hidden()
    shoot(page, "empty")


def test_a_click_on_the_source_shows_the_match_its_confidence_and_the_heat_map(example):
    page = example()
    mark(page, LEFT_EAR)
    began = time.monotonic()
    mark(page, NOSE)
    print(f"a click was answered in {time.monotonic() - began:.3f} s")
    x, y = position(page, 2)
    assert abs(x - 0.606) < 0.1
    assert abs(y - 0.59) < 0.1
    expect(page.locator("#target .marker.chosen .tag")).to_have_text(re.compile(r"\d+%"))
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
    until(lambda: found(page).count() == 1 and position(page)[0] < before[0] - 0.2)


def test_a_match_dragged_elsewhere_is_corrected_and_undone(example):
    page = example()
    mark(page, NOSE)
    before = position(page)
    drag(page, found(page), (-60, 40))
    expect(page.locator("#points tbody tr")).to_contain_text("corrected")
    moved = position(page)
    assert moved[0] < before[0] - 0.05
    page.keyboard.press("Control+z")
    until(lambda: position(page) == before)
    expect(page.locator("#points tbody tr")).not_to_contain_text("corrected")
    page.keyboard.press("Control+z")
    expect(found(page)).to_have_count(0)


def test_points_are_deleted_and_brought_back(example):
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
    expect(page.locator("#status")).to_contain_text("3 points in 4 of 4 targets")
    page.locator(".thumb").nth(3).click()
    expect(page.locator("#target .file-name")).to_contain_text("crop-2.png")
    expect(found(page)).to_have_count(3)
    shoot(page, "propagate", whole=True)
    page.get_by_role("button", name="Remove crop-2.png").click()
    expect(page.locator(".strip li")).to_have_count(3)
    expect(page.locator("#target .file-name")).to_contain_text("raccoon.jpg")


def test_points_and_the_picture_are_downloaded(example):
    page = example()
    mark(page, NOSE, RIGHT_EAR)
    page.get_by_label("Name of point 1").fill("nose")
    page.get_by_label("Name of point 1").press("Enter")
    found_nose = position(page)
    drag(page, page.locator("#target .marker[data-point='2']"), (40, 40))
    expect(page.locator("#points tbody tr").nth(1)).to_contain_text("corrected")

    def download(item):
        page.locator("#downloads summary").click()
        with page.expect_download() as begun:
            page.get_by_role("button", name=item).click()
        return begun.value.suggested_filename, begun.value.path().read_bytes()

    name, content = download("COCO")
    coco = json.loads(content)
    assert name == "points.coco.json"
    assert coco["categories"][0]["keypoints"] == ["nose", "2"]
    assert [image["file_name"] for image in coco["images"]] == ["cat.jpg", "raccoon.jpg"]
    assert coco["annotations"][0]["num_keypoints"] == 2
    name, content = download("CSV")
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert (name, len(rows)) == ("points.csv", 4)
    assert float(rows[2]["x"]) == pytest.approx(800 * found_nose[0], abs=2)
    assert (rows[3]["confidence"], rows[3]["visibility"]) == ("1.0", "2")  # set by hand
    name, content = download("JSON")
    assert name == "points.json"
    assert set(json.loads(content)["images"]) == {"cat.jpg", "raccoon.jpg"}
    name, content = download("Picture of the matches")
    assert name == "matches.png"
    assert Image.open(BytesIO(content)).width > 900


def test_what_is_not_a_picture_is_explained_and_nothing_is_lost(example):
    page = example()
    mark(page, NOSE)
    notes = {"name": "notes.png", "mimeType": "image/png", "buffer": b"not a picture"}
    page.locator("#targets input[multiple]").set_input_files([notes])
    expect(page.get_by_role("alert").filter(has_text="notes.png is not an image")).to_be_visible()
    expect(found(page)).to_have_count(1)
    shoot(page, "problem")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#problem")).to_be_hidden()


def test_everything_is_done_by_keyboard(visit):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()

    def tab_to(selector):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.locator(selector).evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    tab_to("#example")
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


def test_a_phone_has_everything_in_its_width_and_answers_to_touch(example):
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
def test_the_page_follows_light_and_dark(example, scheme):
    page = example(color_scheme=scheme)
    mark(page, NOSE, LEFT_EAR, RIGHT_EAR, MOUTH, EYE)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground))) / 3
    assert (brightness > 200) == (scheme == "light")
    shoot(page, scheme)


def test_pictures_are_dropped_and_shown_upright(visit, tmp_path):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()
    turn = Image.Exif()
    turn[0x0112] = 6
    drop = """(element, files) => {
        const transfer = new DataTransfer();
        for (const [name, bytes] of files) {
            transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
        }
        element.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    files = [["lying.jpg", list(picture(60, 40, "JPEG", exif=turn))], ["b.jpg", list(picture(80, 50, "JPEG"))]]
    page.locator("#source").evaluate(drop, files)
    expect(page.locator("#source .file-name")).to_contain_text("lying.jpg")
    expect(page.locator("#target .file-name")).to_contain_text("b.jpg")
    size = "image => [image.naturalWidth, image.naturalHeight]"
    until(lambda: page.locator("#source .frame img").evaluate(size) == [40, 60])
    mark(page, (0.5, 0.5))


def test_two_of_ones_own_pictures_are_answered_soon(visit):
    page = visit()
    expect(page.locator("#model")).to_be_enabled()
    files = []
    for name in ("raccoon.jpg", "cat.jpg"):
        encoded = BytesIO()
        Image.open(PHOTOS / name).resize((1600, 1200)).save(encoded, "JPEG")
        files.append({"name": name, "mimeType": "image/jpeg", "buffer": encoded.getvalue()})
    began = time.monotonic()
    page.locator("#target input[multiple]").set_input_files(files[:1])
    page.locator("#source .empty input").set_input_files(files[1])
    expect(source_of(page)).to_be_visible()
    mark(page, NOSE)
    print(f"two pictures were answered in {time.monotonic() - began:.3f} s")


def test_another_model_is_asked_anew(example):
    page = example()
    mark(page, NOSE, LEFT_EAR)
    with page.expect_response("**/pairs/match") as answer:
        page.locator("#model").select_option("nearest")
    assert answer.value.json()["model"] == "nearest"
    assert len(answer.value.json()["matches"]) == 2


def test_a_busy_server_is_waited_for(example, app):
    page = example()
    mark(page, NOSE)
    work = app.state.service.work
    limit, work.max_requests = work.max_requests, 0
    try:
        source_of(page).click(position=place(source_of(page), *RIGHT_EAR))
        expect(page.locator("#status")).to_contain_text("busy")
        shoot(page, "busy")
    finally:
        work.max_requests = limit
    expect(found(page)).to_have_count(2)


def test_a_server_that_is_gone_is_said(example):
    page = example()
    page.route("**/pairs/match", lambda route: route.abort())
    source_of(page).click(position=place(source_of(page), *NOSE))
    expect(page.locator("#problem")).to_contain_text("does not answer")


def test_pictures_forgotten_meanwhile_are_said(example):
    page = example()
    page.context.clear_cookies()
    source_of(page).click(position=place(source_of(page), *NOSE))
    expect(page.locator("#problem")).to_contain_text("no longer here")


def test_a_token_is_asked_for_or_taken_from_the_address(visit, app):
    token = "a long enough secret"
    guarded = create_app(Settings(token=token), {"default": lambda: app.state.service.models.get("default")})
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


def test_starting_over_removes_everything(example):
    page = example()
    mark(page, NOSE)
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("button", name="Try the example")).to_be_visible()
    expect(source_of(page)).to_be_hidden()
