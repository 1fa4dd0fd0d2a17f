"""The review routes and their command: what is saved, what is refused, and who may ask."""

import json

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

import uvicorn
from fastapi.testclient import TestClient

from mambamatcher.errors import InputError
from mambamatcher.io.points import make_points, write_points
from mambamatcher.jobs.source import read_source
from mambamatcher.tools.propagate import propagate, read_references
from mambamatcher.tools.reviewing import ReviewedRun, read_skeleton
from mambamatcher.web.review import Review
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.helpers import noise_file, run_cli, wait_until

NAMES = ["nose", "tail <b>"]
HOSTILE = "<i>'quoted'\n\".png"
TOKEN = "a long enough secret"


@pytest.fixture
def out(matcher, tmp_path):
    """A finished run of two points over three images, one of them unreadable."""
    targets = tmp_path / "targets"
    targets.mkdir()
    (tmp_path / "reference.png").write_bytes(noise_file(64, 48, seed=1))
    (targets / "a.png").write_bytes(noise_file(60, 40, seed=2))
    (targets / HOSTILE).write_bytes(noise_file(50, 50, seed=3))
    (targets / "broken.png").write_bytes(b"not an image")
    write_points(tmp_path / "points.csv", {"reference.png": make_points([(10, 12), (40, 30)], NAMES)})
    references = read_references(matcher, [tmp_path / "reference.png"], tmp_path / "points.csv")
    propagate(matcher, references, read_source(targets), tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def client(out, matcher):
    app = create_app(Settings(), {"model": lambda: matcher}, Review(ReviewedRun(out), [("nose", "tail <b>")]))
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def numbers(client):
    return {target["name"]: target["number"] for target in client.get("/review/run").json()["targets"]}


def correction(place=(5.0, 6.0), name="nose", status="corrected"):
    return {"status": status, "points": [{"name": name, "place": place}]}


def saved(out):
    return json.loads((out / "corrections.json").read_text())["images"]


def test_the_run_lists_the_most_doubtful_first_with_names_as_they_are(client):
    run = client.get("/review/run").json()
    assert run["names"] == NAMES
    assert run["skeleton"] == [["nose", "tail <b>"]]
    assert run["references"][0]["size"] == [64, 48]
    assert run["references"][0]["points"][0] == {"name": "nose", "place": [10, 12]}
    assert {target["name"] for target in run["targets"]} == {"a.png", "broken.png", HOSTILE}
    doubts = [target["doubt"] for target in run["targets"]]
    assert doubts == sorted(doubts, reverse=True)
    assert run["targets"][0]["name"] == "broken.png"
    assert "broken.png" in run["targets"][0]["error"]


def test_a_correction_is_saved_at_once_and_dropped(client, out):
    number = numbers(client)[HOSTILE]
    assert client.put(f"/review/targets/{number}", json=correction()).status_code == 204
    assert saved(out) == {HOSTILE: {"status": "corrected", "points": {"nose": [5.0, 6.0]}}}
    assert client.put(f"/review/targets/{number}", json=correction(None)).status_code == 204
    assert saved(out)[HOSTILE]["points"] == {"nose": None}
    shown = client.get(f"/review/targets/{number}").json()
    assert shown["correction"] == correction(None)
    assert [point["name"] for point in shown["points"]] == NAMES
    assert client.delete(f"/review/targets/{number}").status_code == 204
    assert saved(out) == {}


def test_a_correction_made_by_hand_meanwhile_survives(client, out):
    assert client.put(f"/review/targets/{numbers(client)[HOSTILE]}", json=correction()).status_code == 204
    content = json.loads((out / "corrections.json").read_text())
    content["images"]["a.png"] = {"status": "accepted", "points": {"nose": [1.0, 2.0]}}
    (out / "corrections.json").write_text(json.dumps(content))
    assert client.put(f"/review/targets/{numbers(client)[HOSTILE]}", json=correction((7.0, 8.0))).status_code == 204
    assert saved(out)["a.png"]["points"] == {"nose": [1.0, 2.0]}
    assert saved(out)[HOSTILE]["points"] == {"nose": [7.0, 8.0]}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (correction((51.0, 6.0)), 400, "outside"),
        (correction(name="wing"), 400, "no point 'wing'"),
        (correction(status="liked"), 422, "status"),
        (correction((1e400, 0.0)), 422, "finite"),
        ({"status": "accepted", "points": [{"name": "nose"}]}, 422, "place"),
        ({"status": "accepted", "points": [{"name": "nose", "place": None}] * 501}, 422, "500"),
    ],
)
def test_a_wrong_correction_is_refused_and_nothing_written(client, out, body, status, words):
    number = numbers(client)[HOSTILE]
    content = json.dumps(body).replace("Infinity", "1e400")
    headers = {"Content-Type": "application/json"}
    answer = client.put(f"/review/targets/{number}", content=content, headers=headers)
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert not (out / "corrections.json").exists()


def test_an_unreadable_target_and_an_unknown_number_are_refused(client):
    assert client.put(f"/review/targets/{numbers(client)['broken.png']}", json=correction()).status_code == 400
    for path in ("/review/targets/99", "/review/targets/-1/image", "/review/references/1/image"):
        assert client.get(path).status_code == 404
    assert client.get("/review/targets/../../etc/passwd").status_code == 404


def test_images_are_shown_upright_and_small(client):
    for path in ("/review/references/0/image", f"/review/targets/{numbers(client)['a.png']}/image"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_round_keeps_the_correction_and_says_what_changed(client, out):
    assert client.put(f"/review/targets/{numbers(client)['a.png']}", json=correction()).status_code == 204
    assert client.post("/review/round").json()["running"]
    wait_until(lambda: not client.get("/review/round").json()["running"])
    ended = client.get("/review/round").json()
    assert (ended["error"], ended["kept"]) == (None, 1)
    (result,) = (line for line in map(json.loads, (out / "points.jsonl").open()) if line.get("image") == "a.png")
    assert [(point["x"], point["y"]) for point in result["points"] if point["name"] == "nose"] == [(5.0, 6.0)]


def test_a_round_that_cannot_run_says_why(client, out):
    (out / "points.csv").write_text("image,name,x,y\na.png,nose,1,2\n")
    client.post("/review/round")
    wait_until(lambda: not client.get("/review/round").json()["running"])
    assert "points.csv was changed" in client.get("/review/round").json()["error"]


def test_the_review_needs_the_token_too(out, matcher):
    app = create_app(Settings(token=TOKEN), {"model": lambda: matcher}, Review(ReviewedRun(out)))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/").status_code == 200
        for method, path in [("GET", "/review/run"), ("PUT", "/review/targets/0"), ("POST", "/review/round")]:
            assert client.request(method, path).status_code == 401
        assert client.get("/review/run", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_annotation_server_has_no_review(make_client):
    client = make_client()
    assert client.get("/review/run").status_code == 404
    assert "/review/run" not in client.get("/openapi.json").json()["paths"]


def test_a_correction_has_a_limit_on_bytes(client):
    answer = client.put("/review/targets/0", headers={"content-length": str(256 * 1024 + 1)})
    assert answer.status_code == 413


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs the command without serving: (exit code, output)."""

    def call(*arguments):
        monkeypatch.setattr(uvicorn.Server, "run", lambda _, sockets: [each.close() for each in sockets])
        code, printed, errors = run_cli(monkeypatch, capsys, "review", "--port", 0, *arguments)
        return code, printed + errors

    return call


def test_the_command_opens_a_run(command, out):
    code, printed = command(out)
    assert code == 0
    assert "3 targets, 0 of them corrected" in printed
    assert "open http://127.0.0.1:" in printed


def test_the_command_names_the_file_and_what_is_wrong_with_it(command, out, tmp_path):
    def refused(*arguments):
        code, printed = command(*arguments)
        assert code == 2
        assert "Traceback" not in printed
        return printed

    assert "points.jsonl" in refused(tmp_path)
    assert "--token" in refused(out, "--host", "0.0.0.0")
    (out / "corrections.json").write_text("{")
    assert "corrections.json is not JSON" in refused(out)
    (out / "corrections.json").unlink()
    assert "skeleton" in refused(out, "--skeleton", out / "points.coco.json")
    (out / "references.json").rename(out / "references")
    assert "references.json" in refused(out)
    (out / "points.jsonl").write_text('{"model": "old"}\n')
    assert "run propagate again" in refused(out)


def test_a_skeleton_is_read_from_the_category_of_a_coco_file(tmp_path):
    path = tmp_path / "skeleton.json"
    category = {"keypoints": ["nose", "tail", "ear"], "skeleton": [[1, 2], [3, 1]]}
    path.write_text(json.dumps({"categories": [category]}))
    assert read_skeleton(path) == [("nose", "tail"), ("ear", "nose")]
    for skeleton in ([[1, 9]], [[1]], "all", []):
        path.write_text(json.dumps({"categories": [{**category, "skeleton": skeleton}]}))
        with pytest.raises(InputError, match=r"skeleton\.json"):
            read_skeleton(path)
