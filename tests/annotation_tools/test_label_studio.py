"""A real Label Studio server asks this one for the points of two tasks, and shows them."""

import json
import os
import subprocess
from urllib.request import Request, urlopen

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from mambamatcher.io.points import read_points
from mambamatcher.matching.matcher import Matcher
from tests.annotation_tools.conftest import (
    EMAIL,
    LEGACY_TOKEN,
    PASSWORD,
    PHOTOS,
    RECORDED,
    ROOT,
    program,
    recording,
    serving,
)

pytestmark = pytest.mark.tools

TOKEN = "a token of this server"
TARGETS = ["raccoon.jpg", "cat.jpg"]
STEPS = ROOT / "tests" / "annotation_tools" / "label_studio_steps.py"
CONTRACT = ROOT / "tests" / "annotation_tools" / "label_studio_ml_contract.py"


def personal_access_token(url: str) -> str:
    request = Request(f"{url}/api/token/", b"{}", method="POST")
    request.add_header("Authorization", f"Token {LEGACY_TOKEN}")
    request.add_header("Content-Type", "application/json")
    return json.loads(urlopen(request).read())["token"]


@pytest.fixture(scope="module")
def predicted(label_studio):
    """What Label Studio's SDK says after a user has connected the backend and asked for predictions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABEL_STUDIO_API_KEY", personal_access_token(label_studio))
        with (
            serving("--label-studio", "--label-studio-url", label_studio, "--token", TOKEN) as server,
            recording(server, "/health", "/setup", "/predict") as recorder,
        ):
            images = [str(PHOTOS / name) for name in TARGETS]
            command = [program("label-studio"), STEPS, label_studio, LEGACY_TOKEN, recorder.url, TOKEN, *images]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:] + server.log.read_text()[-1000:]
            if os.environ.get("REFRESH_RECORDED"):
                keep_recorded(recorder)
    return json.loads(done.stdout)


def keep_recorded(recorder) -> None:
    """Write down one request of each kind, without this server's addresses and secrets."""
    kept = {}
    for (method, path, headers), body in zip(recorder.asked, recorder.bodies, strict=True):
        content = json.loads(body) if body else None
        if path == "/setup":
            content |= {"access_token": "", "hostname": "http://localhost:8080"}
        named = {name: headers[name] for name in ("User-Agent", "Content-Type", "Authorization") if name in headers}
        kept[f"{method} {path}"] = {"headers": named, "body": content}
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / "label-studio.json").write_text(json.dumps(kept, indent=1) + "\n")


def test_label_studio_stores_the_points_of_both_tasks(predicted):
    assert predicted["state"] == "CO"
    matcher, reference = Matcher.from_pretrained(), read_points(PHOTOS / "cat.json")
    assert [task["image"].rpartition("-")[2] for task in predicted["predictions"]] == TARGETS
    for target, task in zip(TARGETS, predicted["predictions"], strict=True):
        expected = matcher.match(PHOTOS / "cat.jpg", PHOTOS / target, reference.points)
        regions = {each["value"]["keypointlabels"][0]: each for each in task["result"]}
        matched = [name for name, found in zip(reference.names, expected.matched, strict=True) if found]
        assert list(regions) == matched
        for name, point, confidence in zip(reference.names, expected.points, expected.confidence, strict=True):
            if name in regions:
                each = regions[name]
                size = each["original_width"], each["original_height"]
                assert size == expected.target.size
                place = np.array([each["value"]["x"], each["value"]["y"]]) * size / 100
                np.testing.assert_allclose(place, point, atol=0.01)
                assert each["score"] == pytest.approx(confidence, abs=1e-4)


def test_label_studios_own_library_finds_the_predictions_valid(predicted):
    assert [task["valid"] for task in predicted["predictions"]] == [True, True]


def test_label_studio_refuses_to_connect_a_project_without_the_labels(predicted):
    assert "400" in predicted["refused"]


def test_the_answers_have_the_fields_of_label_studios_own_backend(tmp_path):
    done = subprocess.run(
        [program("label-studio-ml"), CONTRACT], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout)
    from mambamatcher.web.label_studio import PredictResponse, SetupResponse, VersionsResponse

    assert set(theirs["predict"]) == set(PredictResponse.model_fields)
    assert set(theirs["setup"]) == set(SetupResponse.model_fields)
    assert set(theirs["versions"]) >= set(VersionsResponse.model_fields)


def test_label_studio_shows_the_points(predicted, label_studio, tmp_path):
    from tests.web.browser import CHROMIUM, SCREENSHOTS, expect, launched_browser

    if not CHROMIUM.exists():
        pytest.skip("there is no chromium; make test-tools installs it")
    with launched_browser() as browser:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(120_000)
        page.route(lambda asked: not asked.startswith(label_studio), lambda route: route.abort())
        page.goto(f"{label_studio}/user/login/", wait_until="domcontentloaded")
        page.fill("input[name=email]", EMAIL)
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url(lambda at: "login" not in at, wait_until="commit")
        data = f"{label_studio}/projects/{predicted['project']}/data"
        page.goto(data, wait_until="domcontentloaded")
        page.wait_for_url("**/data?tab=*", wait_until="commit")  # a first visit makes the tab, and loads a task twice
        task = predicted["predictions"][0]
        page.goto(f"{data}?task={task['task']}", wait_until="domcontentloaded")
        shown = page.locator("[class*=control_type_score]")  # in the list of regions
        expect(shown).to_have_text([f"{region['score']:.2f}" for region in task["result"]])
        page.wait_for_timeout(5000)  # the points appear with an animation
        expect(shown).to_have_count(len(task["result"]))
        folder = SCREENSHOTS if os.environ.get("REFRESH_SCREENSHOTS") else tmp_path
        page.screenshot(path=folder / "label-studio.jpg", type="jpeg", quality=88)
