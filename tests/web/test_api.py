import json
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.helpers import noise_file
from tests.web.conftest import upload

POINTS = [[10, 20], [30.5, 4]]
ROTATED = Image.Exif()
ROTATED[0x0112] = 6  # displayed rotated by 90 degrees


def request_match(client, points=POINTS, files=None, **fields):
    files = files or {"source": ("a.png", noise_file()), "target": ("b.png", noise_file(80, 50))}
    return client.post("/match", files=files, data={"points": json.dumps(points), **fields})


def request_pair(client, source, target, points=POINTS, **fields):
    return client.post(
        "/pairs/match", json={"source": source["id"], "target": target["id"], "points": points, **fields}
    )


def test_match_returns_the_matchers_points_in_pixels_of_the_uploaded_images(client, matcher):
    answer = request_match(client).json()
    assert (answer["source_size"], answer["target_size"], answer["model"]) == ([60, 40], [80, 50], "small")
    expected = matcher.match(Image.open(BytesIO(noise_file())), Image.open(BytesIO(noise_file(80, 50))), POINTS)
    np.testing.assert_allclose([match["target"] for match in answer["matches"]], expected.points)
    np.testing.assert_allclose([match["confidence"] for match in answer["matches"]], expected.confidence, atol=1e-6)
    assert [match["matched"] for match in answer["matches"]] == expected.matched.tolist()
    assert all(match["heatmap"] is None for match in answer["matches"])


def test_a_heat_map_has_one_byte_per_cell_and_255_at_its_maximum(client):
    heatmap = request_match(client, heatmaps="true").json()["matches"][0]["heatmap"]
    values = b64decode(heatmap["values"])
    assert len(values) == heatmap["rows"] * heatmap["columns"]
    assert max(values) == 255


def test_propagate_returns_matches_for_every_target_in_order(client):
    files = [("source", ("a.png", noise_file()))]
    files += [("targets", (f"{seed}.png", noise_file(50 + seed, 40, seed=seed))) for seed in range(3)]
    answer = client.post("/propagate", files=files, data={"points": json.dumps(POINTS)}).json()
    assert [target["target"] for target in answer["targets"]] == ["0.png", "1.png", "2.png"]
    assert [target["target_size"] for target in answer["targets"]] == [[50, 40], [51, 40], [52, 40]]
    assert all(len(target["matches"]) == 2 for target in answer["targets"])


def test_models_lists_the_default_first_and_another_can_be_chosen(client):
    models = client.get("/models").json()["models"]
    assert models == [{"name": "small", "default": True}, {"name": "other", "default": False}]
    assert request_match(client, model="other").json()["model"] == "other"


def test_a_pair_of_the_same_image_matches_each_point_to_itself(client):
    source, target = upload(client), upload(client)
    for match in request_pair(client, source, target).json()["matches"]:
        np.testing.assert_allclose(match["target"], match["source"], atol=8)  # a grid cell of the small model


def test_points_of_a_large_image_are_in_its_own_pixels_though_a_smaller_copy_is_matched(client):
    large = upload(client, noise_file(2600, 2000, "JPEG"))
    assert (large["width"], large["height"]) == (2600, 2000)
    shown = Image.open(BytesIO(client.get(f"/pictures/{large['id']}").content))
    assert shown.size == (1280, 985)
    found = request_pair(client, large, large, [[2500, 100], [2600, 2000]]).json()["matches"]
    np.testing.assert_allclose([match["source"] for match in found], [[2500, 100], [2600, 2000]])
    np.testing.assert_allclose(found[0]["target"], [2500, 100], atol=2600 / 96 * 16)


def test_an_image_with_exif_rotation_is_shown_and_matched_upright(client):
    rotated = noise_file(60, 40, "JPEG", exif=ROTATED)
    stored = upload(client, rotated)
    assert (stored["width"], stored["height"]) == (40, 60)
    shown = Image.open(BytesIO(client.get(f"/pictures/{stored['id']}").content))
    assert shown.size == (40, 60)
    assert not shown.getexif()
    assert request_match(client, [[39, 59]], {"source": rotated, "target": rotated}).json()["source_size"] == [40, 60]


def test_a_pair_without_points_returns_no_matches(client):
    image = upload(client)
    assert request_pair(client, image, image, []).json()["matches"] == []


def test_the_example_is_a_pair_of_images_with_points(client):
    example = client.post("/example").json()
    assert len(example["names"]) == len(example["points"]) == 6
    answer = request_pair(client, example["source"], example["target"], example["points"])
    assert len(answer.json()["matches"]) == 6


def test_a_removed_image_is_gone(client):
    stored = upload(client)
    assert client.delete(f"/pictures/{stored['id']}").status_code == 204
    assert client.get(f"/pictures/{stored['id']}").status_code == 404


def test_a_copy_sent_again_counts_in_pixels_of_its_original(client):
    """The page keeps copies of at most 1280 pixels per side, and sends one when the server has evicted the image."""
    original = upload(client, noise_file(1600, 1200, "JPEG"))
    copy = client.get(f"/pictures/{original['id']}").content
    form = {"width": 1600, "height": 1200}
    again = client.post("/pictures", files={"picture": ("a.png", copy)}, data=form).json()
    assert (again["width"], again["height"], again["name"]) == (1600, 1200, "a.png")
    before, after = (
        request_pair(client, image, image, [(1500, 1100)]).json()["matches"] for image in (original, again)
    )
    np.testing.assert_allclose(after[0]["target"], before[0]["target"], atol=16)


@pytest.mark.parametrize("side", [0, -1, 10**7, "wide"])
def test_an_impossible_size_of_an_original_is_refused(client, side):
    answer = client.post("/pictures", files={"picture": ("a.png", noise_file())}, data={"width": side})
    assert answer.status_code == 422


def test_a_match_names_the_threshold_of_its_model(client, matcher):
    image = upload(client)
    assert request_pair(client, image, image, [(3, 4)]).json()["threshold"] == matcher.calibration.threshold


def test_the_drawing_of_the_matches_is_a_png(client):
    stored = upload(client)
    matches = [{"source": [1, 2], "target": [3, 4], "confidence": 0.5, "matched": True}]
    body = {"source": stored["id"], "target": stored["id"], "matches": matches}
    answer = client.post("/drawing", json=body)
    assert Image.open(BytesIO(answer.content)).format == "PNG"


@pytest.mark.parametrize(
    ("points", "status", "words"),
    [
        ([], 400, "empty"),
        ([[-1, 5]], 400, "point 1, (-1, 5), lies outside"),
        ([[1, 2, 3]], 422, "points"),
        ([[1, "x"]], 422, "points"),
        ("nonsense", 422, "points"),
    ],
)
def test_invalid_points_are_explained_in_a_sentence(client, points, status, words):
    answer = request_match(client, points)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_a_point_that_is_not_a_number_is_refused(client):
    files = {"source": noise_file(), "target": noise_file()}
    answer = client.post("/match", files=files, data={"points": "[[NaN, 1]]"})
    assert answer.status_code == 422


def test_an_unknown_model_is_refused_with_a_suggestion(client):
    answer = request_match(client, model="smal")
    assert answer.status_code == 400
    assert "Did you mean 'small'" in answer.json()["detail"]


def test_the_openapi_description_names_every_route_and_its_errors(client):
    description = client.get("/openapi.json").json()
    assert {"/match", "/propagate", "/models", "/health", "/pairs/match", "/pictures"} <= set(description["paths"])
    assert "503" in description["paths"]["/match"]["post"]["responses"]
