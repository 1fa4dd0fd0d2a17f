"""The backend of Label Studio, asked as the real one asked (recorded/label-studio.json), and in wrong ways."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the web extra is not installed")

from mambamatcher.web.fetching import LabelStudioImages
from mambamatcher.web.label_studio import LabelStudio
from tests.helpers import noise_file
from tests.web.other_server import IMAGE, other_server

RECORDED = json.loads((Path(__file__).parent / "recorded" / "label-studio.json").read_text())
TOKEN = "a token of this server"  # as Label Studio sent it
NAMES = ["left eye", "right eye", "nose", "mouth", "left ear", "right ear"]
PLACES = np.array([[3.0, 4.0], [30.0, 20.0], [55.0, 35.0], [10.0, 33.0], [42.0, 7.0], [20.0, 12.0]])
CONFIG = RECORDED["POST /setup"]["body"]["schema"]
TASKS = [task["data"]["image"] for task in RECORDED["POST /predict"]["body"]["tasks"]]


@pytest.fixture(scope="module")
def label_studio():
    with other_server(dict.fromkeys(TASKS, IMAGE)) as server:
        yield server


@pytest.fixture
def connect(connect_tool, label_studio):
    """Return a function that starts a backend of this Label Studio and returns a client for it."""

    def tool(predictor, settings):
        return LabelStudio(predictor, LabelStudioImages(label_studio.url, "secret", settings.picture_bytes))

    return lambda names=NAMES, **settings: connect_tool(tool, PLACES[: len(names)], names, **settings)


def replay(client, name, **changed):
    method, _, path = name.partition(" ")
    body = RECORDED[name]["body"]
    return client.request(method, path, headers=RECORDED[name]["headers"], json=body and {**body, **changed})


def predict(client, **changed):
    return replay(client, "POST /predict", **changed)


def with_image(address):
    return [{"id": 1, "data": {"image": address}}]


def test_the_requests_of_a_real_label_studio_are_answered_with_points_in_percent(connect, monkeypatch, matcher):
    monkeypatch.setattr(matcher, "calibration", matcher.calibration.__class__(threshold=0.0))
    client = connect(token=TOKEN)
    assert replay(client, "GET /health").status_code == 200
    version = replay(client, "POST /setup").json()["model_version"]
    answer = predict(client)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model_version"] == version
    assert client.get("/versions", headers=RECORDED["GET /health"]["headers"]).json() == {"versions": [version]}
    assert len(answer.json()["results"]) == len(TASKS)
    for result in answer.json()["results"]:  # each image is the reference itself, so its points are found there
        assert [each["value"]["keypointlabels"] for each in result["result"]] == [[name] for name in NAMES]
        expected = matcher.match(noise_file(), noise_file(), PLACES)
        places = [(each["value"]["x"], each["value"]["y"]) for each in result["result"]]
        np.testing.assert_allclose(np.array(places) * [60, 40] / 100, expected.points, atol=1e-6)
        np.testing.assert_allclose([each["score"] for each in result["result"]], expected.confidence, atol=1e-4)
        for each in result["result"]:
            assert (each["from_name"], each["to_name"], each["type"]) == ("parts", "photo", "keypointlabels")
            assert (each["original_width"], each["original_height"], each["image_rotation"]) == (60, 40, 0)
        assert result["score"] == pytest.approx(expected.confidence.mean(), abs=1e-4)
        assert result["model_version"] == version


def test_points_below_the_threshold_are_left_out(connect, monkeypatch, matcher):
    monkeypatch.setattr(matcher, "calibration", matcher.calibration.__class__(threshold=1.0))
    results = predict(connect()).json()["results"]
    assert [(each["result"], each["score"]) for each in results] == [([], 0.0)] * 2


def test_the_version_changes_with_the_points(connect):
    versions = {connect(NAMES[:count]).get("/versions").json()["versions"][0] for count in (4, 5, 6)}
    assert len(versions) == 3


@pytest.mark.parametrize("given", ["", "Basic", "Basic !", "Basic d3Jvbmc6d3Jvbmc=", "Basic /w==", "Bearer wrong"])
def test_the_token_is_required_and_may_come_as_a_password(connect, given):
    client = connect(token=TOKEN)
    body = RECORDED["POST /predict"]["body"]
    assert client.post("/predict", json=body, headers={"Authorization": given}).status_code == 401
    assert client.post("/predict", json=body, headers={"Token": TOKEN}).status_code == 200


def test_one_image_that_cannot_be_used_costs_no_other_task_its_points(connect, caplog):
    tasks = [*with_image("http://evil.example/a.png"), *with_image(TASKS[0])]
    answer = predict(connect(), tasks=tasks).json()["results"]
    assert answer[0] == []  # Label Studio then stores nothing, and asks again
    assert "result" in answer[1]
    assert "Label Studio: the image address 'http://evil.example/a.png' is not on http://127.0.0.1:" in caplog.text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tasks": with_image("http://evil.example/a.png")}, "the only server that images are fetched from"),
        ({"tasks": with_image("file:///etc/passwd")}, "the only server that images are fetched from"),
        ({"tasks": with_image("/data/../api/users")}, "leads out of a folder"),
        ({"tasks": with_image("/data/nothing.png")}, "Label Studio answers 404"),
        ({"tasks": with_image(7)}, "no image address in its field 'image'"),
        ({"tasks": [{"data": {"photo": TASKS[0]}}]}, "no image address in its field 'image'"),
        ({"label_config": None}, "the project '1.1794978109' has not been set up here"),
        (
            {"label_config": CONFIG.replace("left ear", "tail")},
            "no keypoint label 'left ear', a point of the reference",
        ),
        ({"label_config": CONFIG.replace("KeyPointLabels", "RectangleLabels")}, "no KeyPointLabels for an Image"),
        ({"label_config": CONFIG.replace('toName="photo"', 'toName="other"')}, "no KeyPointLabels for an Image"),
        ({"label_config": CONFIG.replace("$image", "https://a/b")}, "has the value 'https://a/b'; use one like $image"),
        ({"label_config": "<View>"}, "is not XML"),
        ({"label_config": '<!DOCTYPE a [<!ENTITY b "c">]><View>&b;</View>'}, "declares a document type"),
        ({"label_config": "<a>" * 50_000 + "</a>" * 10}, "is not XML"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(connect, changed, words):
    answer = predict(connect(), **changed)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_after_setup_the_labelling_interface_need_not_be_sent_again(connect):
    client = connect()
    assert replay(client, "POST /setup").status_code == 200
    assert predict(client, label_config=None).status_code == 200


def test_setup_refuses_labels_that_do_not_match_and_logs_why(connect, caplog):
    answer = replay(connect(), "POST /setup", schema=CONFIG.replace("nose", "\x7f"))
    assert answer.status_code == 400
    assert "no keypoint label 'nose'" in answer.json()["detail"]
    assert "Label Studio: the labelling interface has no keypoint label 'nose'" in caplog.text


def test_an_alias_is_the_name_of_a_label(connect):
    config = CONFIG.replace('value="nose"', 'value="Nase" alias="nose"')
    assert replay(connect(), "POST /setup", schema=config).status_code == 200


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"<svg/>", "image/svg+xml", "is not a readable image"),
        (b"<html>", "text/html", "not an image"),
        (noise_file(300, 300), "image/png", "more than the 100,000 bytes allowed"),
        (noise_file(20, 3000, "JPEG", quality=1), "image/jpeg", "pixels"),
    ],
)
def test_an_image_of_the_wrong_kind_or_size_is_refused(connect, label_studio, content, kind, words):
    label_studio.answers["/data/wrong"] = (200, {"Content-Type": kind}, content)
    client = connect(picture_bytes=100_000, picture_pixels=50_000)
    answer = predict(client, tasks=with_image("/data/wrong"))
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_more_tasks_than_allowed_and_requests_that_are_not_label_studios_are_refused(connect):
    client = connect(targets=1)
    assert predict(client).status_code == 413
    for body in ({}, {"tasks": []}, {"tasks": [{}]}, {"tasks": "x"}, {"project": "1", "schema": 3}):
        for path in ("/predict", "/setup"):
            assert client.post(path, json=body).status_code == 422
    assert client.post("/predict", content=b"[" * 10_000).status_code == 422


def test_a_task_may_have_many_columns_and_earlier_annotations(connect):
    data = {f"column {number}": number for number in range(150)}
    region = {"value": {"x": 1, "y": 2}, "id": "a"}
    tasks = [{"id": 1, "data": {**data, "image": TASKS[0]}, "annotations": [{"result": [region] * 20}] * 500}]
    assert predict(connect(), tasks=tasks).status_code == 200


def test_without_the_option_the_routes_do_not_exist(client):
    for name in ("POST /setup", "POST /predict"):
        assert replay(client, name).status_code == 404


def test_a_rotated_photo_has_its_points_in_the_upright_image(connect, label_studio, monkeypatch, matcher):
    monkeypatch.setattr(matcher, "calibration", matcher.calibration.__class__(threshold=0.0))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    label_studio.answers["/data/turned.jpg"] = (
        200, {"Content-Type": "image/jpeg"}, noise_file(60, 40, "JPEG", exif=exif)
    )  # fmt: skip
    (result,) = predict(connect(), tasks=with_image("/data/turned.jpg")).json()["results"]
    assert {(each["original_width"], each["original_height"]) for each in result["result"]} == {(40, 60)}
