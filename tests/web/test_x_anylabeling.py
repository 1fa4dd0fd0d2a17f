"""The remote server of X-AnyLabeling, asked as its client asked (recorded/x-anylabeling.json), and in wrong ways."""

import json
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from mambamatcher.web.x_anylabeling import XAnyLabeling
from tests.helpers import noise_file

RECORDED = json.loads((Path(__file__).parent / "recorded" / "x-anylabeling.json").read_text())
TOKEN = "a token of this server"  # as the client sent it
NAMES = ["left eye", "right eye", "nose"]
PLACES = np.array([[3.0, 4.0], [30.0, 20.0], [55.0, 35.0]])


@pytest.fixture
def connect(connect_tool):
    return lambda **settings: connect_tool(lambda predictor, _: XAnyLabeling(predictor), PLACES, NAMES, **settings)


def data_url(content, kind="image/png"):
    return f"data:{kind};base64,{b64encode(content).decode()}"


def predict(client, params=None, **changed):
    recorded = RECORDED["POST /v1/predict"]
    body = {**recorded["body"], **({} if params is None else {"params": params}), **changed}
    return client.post("/v1/predict", headers=recorded["headers"], json=body)


def test_the_requests_of_the_real_client_are_answered(connect):
    client = connect(token=TOKEN)
    described = client.get("/v1/models", headers=RECORDED["GET /v1/models"]["headers"]).json()
    assert described["data"]["mambamatcher"]["classes"] == NAMES
    assert client.get("/health").status_code == 200
    answer = predict(client)
    assert answer.status_code == 200, answer.text
    shapes = answer.json()["data"]["shapes"]
    assert {(shape["label"], shape["shape_type"]) for shape in shapes} <= {("nose", "point")}  # its filter


def test_points_come_in_pixels_with_their_confidence(connect, matcher):
    shapes = predict(connect(), {"conf_threshold": 0.0}, image=data_url(noise_file())).json()["data"]["shapes"]
    expected = matcher.match(noise_file(), noise_file(), PLACES)
    assert [shape["label"] for shape in shapes] == NAMES
    np.testing.assert_allclose([shape["points"] for shape in shapes], expected.points[:, None], atol=1e-3)
    np.testing.assert_allclose([shape["score"] for shape in shapes], expected.confidence, atol=1e-4)


def test_the_threshold_is_the_panels_or_else_the_models(connect, matcher):
    client = connect()
    confidence = matcher.match(noise_file(), noise_file(), PLACES).confidence
    image = data_url(noise_file())
    for params, limit in (
        ({"conf_threshold": float(np.median(confidence))}, np.median(confidence)),
        ({}, matcher.calibration.threshold),
        ({"conf_threshold": 1.1, "filter_classes": []}, 1.1),
    ):
        shapes = predict(client, params, image=image).json()["data"]["shapes"]
        assert len(shapes) == int((confidence >= limit).sum())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": "sam"}, "there is no model 'sam' here"),
        ({"params": {"filter_classes": ["tail"]}}, "the reference has no point 'tail'; its points are: 'left eye'"),
        ({"image": "http://evil.example/a.png"}, "addresses are not fetched"),
        ({"image": "file:///etc/passwd"}, "addresses are not fetched"),
        ({"image": "data:text/html;base64,AAAA"}, "must be a data URL like data:image/png"),
        ({"image": "data:image/png;base64,?"}, "not valid base64"),
        ({"image": "data:image/png;base64,\u00e9"}, "not valid base64"),
        ({"image": data_url(b"<svg/>", "image/svg+xml")}, "is not a readable image"),
        ({"image": data_url(b"")}, "empty"),
        ({"image": data_url(noise_file(200, 300))}, "more than the 100,000 bytes allowed"),
        ({"image": data_url(noise_file(20, 3000, "JPEG", quality=1))}, "pixels"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence_and_logged(connect, caplog, changed, words):
    params = changed.pop("params", {}) if "params" in changed else {}
    answer = predict(connect(picture_bytes=100_000, picture_pixels=50_000), params, **changed)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]
    assert words in caplog.text


@pytest.mark.parametrize("changed", [{"model": None}, {"image": 3}, {"params": {"conf_threshold": "high"}}])
def test_a_request_that_is_not_the_clients_is_refused(connect, changed):
    assert predict(connect(), **changed).status_code == 422


def test_the_token_is_required(connect):
    client = connect(token=TOKEN)
    assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/models", headers={"Token": "wrong"}).status_code == 401
    assert client.post("/v1/predict", json=RECORDED["POST /v1/predict"]["body"]).status_code == 401


def test_without_the_option_the_routes_do_not_exist(client):
    assert client.get("/v1/models").status_code == 404
    assert predict(client).status_code == 404
