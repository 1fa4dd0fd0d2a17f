"""Work is never lost, in a real browser: reload, a forgetful server, undo and redo, questions before a loss."""

import csv
import io
import json

import numpy as np
import pytest

from mambamatcher.io.points import read_annotations
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.helpers import wait_until
from tests.web.browser import (
    EYE,
    LEFT_EAR,
    MARKS,
    NOSE,
    RIGHT_EAR,
    confirm,
    download,
    drag,
    expect,
    found,
    kept,
    mark,
    place,
    position,
    serving,
    shoot,
    source_of,
    target_of,
)

pytestmark = MARKS
ROWS = "#points tbody tr"
# Puts targets into the session that are copies of the first, as if they had been uploaded and then forgotten.
ADD_TARGETS = """async (count) => {
    const { edit, state } = await import("/static/store.js");
    const [first] = state.targets;
    const numbers = [...Array(count).keys()];
    const copies = numbers.map((number) => ({ ...first, id: `copy-${number}`, name: `${number}.jpg` }));
    edit({ targets: [first, ...copies] });
}"""


def load_example(page):
    expect(page.locator("#model")).to_be_enabled()
    page.get_by_role("button", name="Try the example").click()
    expect(target_of(page)).to_be_visible()
    return page


def with_same_model(app, **settings):
    return create_app(Settings(**settings), {"default": lambda: app.state.server.models.get("default")})


def test_a_reload_restores_images_points_corrections_and_settings(example):
    page = example()
    mark(page, NOSE, RIGHT_EAR)
    page.get_by_label("Name of point 1").fill("nose")
    page.get_by_label("Name of point 1").press("Enter")
    drag(page, page.locator("#target .marker[data-point='2']"), (50, 30))
    page.locator("#threshold").fill("30")
    page.locator("#heat").uncheck()
    before = np.array([position(page, number, side) for number in (1, 2) for side in ("source", "target")])
    kept(page)
    page.reload()
    expect(found(page)).to_have_count(2)
    with page.expect_request("**/pairs/match") as asked:
        mark(page, EYE)
    assert len(asked.value.post_data_json["points"]) == 1  # what was found before the reload is not asked for again
    after = [position(page, number, side) for number in (1, 2) for side in ("source", "target")]
    np.testing.assert_allclose(after, before, atol=1e-5)
    expect(page.get_by_label("Name of point 1")).to_have_value("nose")
    expect(page.locator(ROWS).nth(1)).to_contain_text("corrected")
    expect(page.locator("#threshold-value")).to_have_text("30%")
    expect(page.locator("#heat")).not_to_be_checked()


def test_images_that_the_server_has_forgotten_are_uploaded_again(visit, app):
    with serving(with_same_model(app, keep_seconds=1.0)) as address:
        page = load_example(visit(at=address))
        mark(page, NOSE)
        drag(page, found(page), (40, 40))
        page.wait_for_timeout(2500)  # idle for longer than the server keeps images
        with page.expect_response("**/pairs/match") as answer:
            source_of(page).click(position=place(source_of(page), *RIGHT_EAR))
        assert answer.value.status == 404
        expect(found(page)).to_have_count(2)
        expect(page.locator(ROWS).first).to_contain_text("corrected")
        expect(page.locator("#problem")).to_be_hidden()


def test_a_restart_of_the_server_is_survived_and_points_are_downloaded_meanwhile(visit, app):
    with serving(with_same_model(app)) as address:
        port = int(address.rsplit(":", 1)[1])
        page = load_example(visit(at=address))
        mark(page, NOSE)
    assert download(page, "COCO")[0] == "points.coco.json"  # without a server
    source_of(page).click(position=place(source_of(page), *RIGHT_EAR))
    expect(page.locator("#problem")).to_contain_text("does not respond")
    with serving(with_same_model(app), port):
        expect(found(page)).to_have_count(2)  # by itself
        expect(page.locator("#problem")).to_be_hidden()
        kept(page)
        page.reload()
        expect(found(page)).to_have_count(2)


def test_undo_and_redo_walk_through_everything(example):
    page = example()
    mark(page, NOSE)
    drag(page, found(page), (-60, 40))
    expect(page.locator(ROWS)).to_contain_text("corrected")
    corrected = position(page)
    page.get_by_label("Name of point 1").fill("nose")
    page.get_by_label("Name of point 1").press("Enter")
    page.get_by_role("button", name="Remove raccoon.jpg").click()
    confirm(page, "Remove the target")
    expect(target_of(page)).to_be_hidden()
    page.get_by_role("button", name="Start over").click()
    confirm(page, "Start over")
    expect(source_of(page)).to_be_hidden()
    page.locator("body").click(position={"x": 2, "y": 2})

    page.keyboard.press("Control+z")
    expect(source_of(page)).to_be_visible()
    page.keyboard.press("Control+z")
    expect(target_of(page)).to_be_visible()
    wait_until(lambda: position(page) == corrected)
    page.keyboard.press("Control+z")
    expect(page.get_by_label("Name of point 1")).to_have_value("1")
    page.keyboard.press("Control+z")
    expect(page.locator(ROWS)).not_to_contain_text("corrected")
    page.keyboard.press("Control+z")
    expect(found(page)).to_have_count(0)

    page.keyboard.press("Control+Shift+Z")
    expect(found(page)).to_have_count(1)
    page.keyboard.press("Control+y")
    wait_until(lambda: position(page) == corrected)
    page.get_by_role("button", name="Redo").click()
    expect(page.get_by_label("Name of point 1")).to_have_value("nose")
    page.keyboard.press("Control+y")
    expect(target_of(page)).to_be_hidden()
    kept(page)
    page.keyboard.press("Control+y")
    expect(source_of(page)).to_be_hidden()
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    mark(page, LEFT_EAR)  # the images were removed from the server: the page uploads them again
    expect(page.get_by_role("button", name="Redo")).to_be_disabled()


def test_a_correction_stays_when_the_source_point_moves_until_it_is_dropped(example):
    page = example()
    mark(page, NOSE)
    drag(page, found(page), (-60, 40))
    corrected = position(page)
    drag(page, page.locator("#source .marker"), (12, 0))
    expect(page.locator(ROWS)).to_contain_text("corrected")
    assert position(page) == corrected
    page.keyboard.press("r")
    expect(page.locator(ROWS)).to_contain_text("%")
    wait_until(lambda: found(page).count() == 1 and position(page) != corrected)


def test_the_page_asks_before_work_is_thrown_away(example):
    page = example()
    mark(page, NOSE)
    picture = {"name": "new.png", "mimeType": "image/png", "buffer": b"not needed: the question comes first"}
    for ask, action in [
        (lambda: page.get_by_role("button", name="Start over").click(), "Start over"),
        (lambda: page.get_by_role("button", name="Remove raccoon.jpg").click(), "Remove the target"),
        (lambda: page.locator("#source .replace input").set_input_files([picture]), "Replace the source"),
    ]:
        ask()
        expect(page.locator("#confirm").get_by_role("button", name=action)).to_be_visible()
        if action == "Start over":
            shoot(page, "question")
        page.keyboard.press("Escape")
        expect(page.locator("#confirm")).to_be_hidden()
        expect(found(page)).to_have_count(1)
    page.get_by_role("button", name="Start over").click()
    confirm(page, "Start over")
    expect(page.get_by_role("button", name="Try the example")).to_be_visible()
    wait_until(lambda: page.evaluate(COUNT_KEPT) == 0)
    page.reload()
    expect(page.locator("#model")).to_be_enabled()
    expect(page.get_by_role("button", name="Try the example")).to_be_visible()


COUNT_KEPT = """() => new Promise((resolve) => {
    indexedDB.open("mambamatcher").onsuccess = ({ target: { result } }) => {
        result.transaction("images").objectStore("images").count().onsuccess = (event) => resolve(event.target.result);
    };
})"""


def test_points_below_the_threshold_are_faint_and_stay_in_downloads(example):
    page = example()
    mark(page, NOSE, RIGHT_EAR)
    confidence = [
        float(row["confidence"]) for row in list(csv.DictReader(io.StringIO(download(page, "CSV")[1].decode())))[2:]
    ]
    assert confidence[0] != confidence[1]
    between = round(100 * (confidence[0] + confidence[1]) / 2)
    page.locator("#threshold").fill(str(between))
    expect(page.locator("#target .marker.hollow")).to_have_count(1)
    rows = list(csv.DictReader(io.StringIO(download(page, "CSV")[1].decode())))[2:]
    for row, sure in zip(rows, confidence, strict=True):
        assert float(row["confidence"]) == sure
        assert row["visibility"] == ("2" if sure >= between / 100 else "1")
    page.keyboard.press("Control+z")
    expect(page.locator("#target .marker.hollow")).to_have_count(sum(each < 0.14 for each in confidence))


NAMES = ["=2+3", '"quoted", and\nnewline', "<img src=x onerror=alert(1)>", "-5", "'=apostrophe", "naïve ☂"]


def test_names_of_any_kind_come_through_every_download_as_plain_text(example, tmp_path):
    page = example()
    page.evaluate(
        """async (names) => {
            const { edit, state, set } = await import("/static/store.js");
            const points = names.map((name, index) => ({ id: index + 1, name, x: 10 * index, y: 5 }));
            edit({ points, targets: [{ ...state.targets[0], name: names[0] }] });
            set({ lastId: names.length });
        }""",
        NAMES,
    )
    expect(found(page)).to_have_count(len(NAMES))
    expect(page.locator("img[src=x]")).to_have_count(0)
    for item in ("COCO", "CSV", "JSON"):
        name, content = download(page, item)
        (tmp_path / name).write_bytes(content)
        read = read_annotations(tmp_path / name)
        assert set(read) == {"cat.jpg", NAMES[0]}
        assert list(read["cat.jpg"].names) == NAMES
        assert read["cat.jpg"].points.tolist() == [[10.0 * index, 5.0] for index in range(len(NAMES))]


def test_another_tab_takes_the_session_over(example):
    page = example()
    mark(page, NOSE)
    kept(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(found(other)).to_have_count(1)
    source_of(page).click(position=place(source_of(page), *LEFT_EAR))
    expect(page.locator("#problem")).to_contain_text("opened in another tab")
    mark(other, EYE)
    kept(other)
    other.reload()
    expect(found(other)).to_have_count(2)


def test_five_hundred_targets_are_restored_and_answered(example):
    page = example()
    mark(page, NOSE)
    page.evaluate(ADD_TARGETS, 499)
    expect(page.locator(".strip li")).to_have_count(500)
    kept(page)
    page.reload()
    expect(page.locator(".strip li")).to_have_count(500)
    expect(page.locator("#targets .count")).to_have_text("500 images")
    mark(page, RIGHT_EAR)
    page.locator(".thumb").nth(499).click()
    expect(page.locator("#target .file-name")).to_contain_text("498.jpg")
    expect(found(page)).to_have_count(2)  # an image that the server never had
    assert json.loads(download(page, "JSON")[1])["images"].keys() == {"cat.jpg", "raccoon.jpg", "498.jpg"}


def test_a_browser_without_storage_says_so(visit):
    page = visit()
    refuse = "{ value: { open() { throw new DOMException('no', 'SecurityError'); } } }"
    page.add_init_script(f"Object.defineProperty(window, 'indexedDB', {refuse});")
    page.reload()
    expect(page.locator("#problem")).to_contain_text("cannot keep your session (SecurityError)")
    page.get_by_role("button", name="Dismiss").click()
    load_example(page)
    mark(page, NOSE)


@pytest.mark.parametrize("count", [201, 501])
def test_a_session_holds_five_hundred_targets(make_client, count):
    from tests.web.conftest import small_stored_image, upload

    client = make_client()
    upload(client)
    server = client.app.state.server
    (session,) = server.sessions._sessions.values()
    for number in range(count - 1):
        session.images[str(number)] = small_stored_image() if not number else session.images["0"]
    answer = client.post("/pictures", files={"picture": ("a.png", small_stored_image().jpeg)})
    assert answer.status_code == (201 if count < 501 else 400)
