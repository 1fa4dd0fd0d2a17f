"""The server keeps the promises of SECURITY.md: limits, content, sessions, eviction, headers, token."""

import json
import re

import pytest
from fastapi.testclient import TestClient

from mambamatcher.web import page
from mambamatcher.web.server import create_app
from mambamatcher.web.sessions import MAX_SESSIONS, SessionStore
from mambamatcher.web.state import Settings
from mambamatcher.web.uploads import display_name
from tests.helpers import noise_file
from tests.web.conftest import small_stored_image, upload

TOKEN = "a long enough secret"
INLINE_CODE = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"|javascript:|innerHTML"
FOREIGN_HOSTS = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost.evil"]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def request_match(client, points="[[1, 2]]", **files):
    return client.post(
        "/match", files={"source": noise_file(), "target": noise_file(), **files}, data={"points": points}
    )


def test_every_response_has_the_security_headers(client):
    for answer in (client.get("/"), client.get("/static/app.js"), client.get("/health"), client.get("/nothing")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code():
    for path in page.STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//\w+\.\w+", text), path.name
        assert not re.search(INLINE_CODE, text), path.name


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.168.1.5"])
def test_requests_to_addresses_and_localhost_are_accepted(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_name_is_refused(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 421


def test_a_host_name_from_the_settings_is_accepted(make_client):
    client = make_client(host_names=("lab.example",))
    assert client.get("/health", headers={"host": "Lab.example:80"}).status_code == 200


def test_requests_from_pages_of_other_sites_are_refused(client):
    assert client.post("/example", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/example", headers={"origin": "null"}).status_code == 403
    assert client.post("/example", headers={"origin": "http://["}).status_code == 403
    assert client.post("/example", headers={"origin": "http://localhost"}).status_code == 201


def test_only_the_page_is_reachable_without_the_token(make_client):
    client = make_client(token=TOKEN)
    for path in ("/", "/static/app.js", "/health", "/openapi.json"):
        assert client.get(path).status_code == 200
    assert client.get("/models").status_code == 401
    assert request_match(client).status_code == 401
    assert client.post("/example").status_code == 401
    assert client.get("/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/models", headers={"Authorization": TOKEN}).status_code == 401
    assert client.get("/models", headers={"cookie": "mambamatcher_session=guess"}).status_code == 401
    assert client.get("/models", headers=BEARER).status_code == 200


def test_signing_in_requires_the_right_token(make_client):
    client = make_client(token=TOKEN)
    assert client.post("/signin", json={"token": "wrong"}).status_code == 401
    assert client.get("/models").status_code == 401
    assert client.post("/signin", json={"token": TOKEN}).status_code == 204
    assert client.get("/models").status_code == 200


def test_a_token_with_non_ascii_letters_is_refused_without_an_error(make_client):
    client = make_client(token=TOKEN)
    assert client.get("/models", headers={"Authorization": "Bearer gr\u00fc\u00df".encode()}).status_code == 401


@pytest.mark.parametrize(
    "foreign", ['prefs={"a": [1]}', "a b=c", 'x="', "mambamatcher_session=other", "=", ";;", "\xe9=\xff"]
)
def test_cookies_of_other_applications_do_not_break_the_session(client, foreign):
    stored = upload(client)
    own = f"mambamatcher_session={client.cookies['mambamatcher_session']}"
    client.cookies.clear()
    for cookies in (f"{foreign}; {own}", f"{own}; {foreign}"):
        answer = client.get(f"/pictures/{stored['id']}", headers={"cookie": cookies.encode("latin-1")})
        assert answer.status_code == 200, cookies


def test_many_sessions_without_images_do_not_evict_one_with_images():
    store = SessionStore(10**9, keep_seconds=60.0)
    owner = store.open()
    store.add(owner, small_stored_image(), 10)
    for _ in range(MAX_SESSIONS + 1):
        store.open()
    assert store.find(owner.secret) is owner
    assert len(store) == MAX_SESSIONS


def test_a_key_that_comes_twice_is_refused(client):
    for body in ('{"token": "a", "token": "b"}', '{"token": {"a": 1, "a": 1}}'):
        answer = client.post("/signin", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert "same key twice" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/signin", 4 * 1024), ("/example", 0), ("/pairs/match", 256 * 1024), ("/drawing", 256 * 1024),
     ("/pictures", 20 * 2**20 + 256 * 1024), ("/match", 40 * 2**20 + 256 * 1024),
     ("/propagate", 100 * 2**20), ("/nothing", 4 * 1024), ("/setup", 256 * 1024), ("/predict", 4 * 2**20),
     ("/v1/predict", 20 * 2**20 * 4 // 3 + 256 * 1024)],
)  # fmt: skip
def test_every_route_has_its_own_limit_on_bytes(client, path, limit):
    announced = {"content-length": str(limit + 1)}
    answer = client.post(path, headers=announced)
    assert answer.status_code == 413
    assert f"more than the {limit:,} allowed" in answer.json()["detail"]
    answer = client.get(path, headers={"content-length": str(limit + 1)})
    assert answer.status_code == 413


def test_an_unexpected_error_is_answered_with_the_security_headers(matcher, monkeypatch):
    app = create_app(Settings(), {"small": lambda: matcher})
    monkeypatch.setattr(app.state.server.sessions, "open", lambda: 1 / 0)
    answer = TestClient(app, base_url="http://localhost", raise_server_exceptions=False).post("/example")
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_error_quotes_only_the_beginning_of_a_long_key(client):
    answer = client.post("/signin", json={"x" * 3000: 1})
    assert answer.status_code == 422
    assert len(answer.text) < 600


def test_the_session_cookie_is_hidden_from_scripts_and_other_sites(client):
    cookie = client.post("/example").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert len(re.search(r"mambamatcher_session=([^;]+)", cookie)[1]) >= 43  # 256 bits


def test_a_client_cannot_see_use_or_remove_images_of_another(client):
    first = upload(client)["id"]
    client.cookies, cookies = type(client.cookies)(), client.cookies  # as another client of the same server
    second = upload(client)["id"]
    assert client.get(f"/pictures/{first}").status_code == 404
    assert client.delete(f"/pictures/{first}").status_code == 404
    for pair in ((first, second), (second, first)):
        body = {"source": pair[0], "target": pair[1], "points": [[1, 2]]}
        assert client.post("/pairs/match", json=body).status_code == 404
        matches = [{"source": [1, 2], "target": [3, 4], "confidence": 0.5, "matched": True}]
        body = {"source": pair[0], "target": pair[1], "matches": matches}
        assert client.post("/drawing", json=body).status_code == 404
    client.cookies = cookies
    assert client.get(f"/pictures/{first}").status_code == 200


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0 EPSF-3.0\n", noise_file()[:200]],
    ids=["empty", "text", "svg", "postscript", "truncated"],
)
def test_an_upload_that_is_no_image_by_its_content_is_refused_whatever_its_name(client, data):
    answer = client.post("/pictures", files={"picture": ("cat.png", data, "image/png")})
    assert answer.status_code == 400
    assert "cat.png" in answer.json()["detail"]


def test_an_image_with_too_many_pixels_is_refused(make_client):
    client = make_client(picture_pixels=1000)
    answer = client.post("/pictures", files={"picture": ("a.png", noise_file(60, 40))})
    assert answer.status_code == 400
    assert "60x40 pixels, more than the 1,000 allowed" in answer.json()["detail"]


def test_a_file_with_too_many_bytes_is_refused(make_client):
    client = make_client(picture_bytes=1000)
    assert client.post("/pictures", files={"picture": ("a.png", noise_file())}).status_code == 413
    assert request_match(client).status_code == 413


def test_a_request_with_too_many_bytes_is_refused(make_client):
    client = make_client(request_bytes=1000)
    assert client.post("/pictures", files={"picture": ("a.png", noise_file())}).status_code == 413


def test_a_request_of_unknown_length_is_refused(client):
    assert client.post("/signin", content=iter([b"{}"])).status_code == 411
    both = {"content-length": "2", "transfer-encoding": "chunked"}
    assert client.post("/signin", content=b"{}", headers=both).status_code == 411
    assert client.get("/health", headers={"transfer-encoding": "gzip"}).status_code == 411
    assert client.post("/example", headers={"content-length": "9" * 5000}).status_code == 411
    assert client.post("/example", headers={"content-length": "-1"}).status_code == 411


def test_too_many_points_targets_and_images_are_refused(make_client):
    client = make_client(points=2, targets=2)
    assert request_match(client, json.dumps([[1, 2]] * 3)).status_code == 400
    files = [("source", noise_file())] + [("targets", noise_file())] * 3
    assert client.post("/propagate", files=files, data={"points": "[[1, 2]]"}).status_code == 413
    stored = [upload(client) for _ in range(3)]  # a source and two targets
    assert client.post("/pictures", files={"picture": noise_file()}).status_code == 400
    body = {"source": stored[0]["id"], "target": stored[1]["id"], "points": [[1, 2]] * 3}
    assert client.post("/pairs/match", json=body).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/pictures/../../etc/passwd",
        "/pictures/%2e%2e%2fpasswd",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
    ],
)
def test_no_path_named_by_a_client_is_opened(client, path):
    upload(client)
    assert client.get(path).status_code == 404


def test_a_client_cannot_name_a_model_folder(client, tmp_path):
    answer = client.post("/match", files={"source": noise_file(), "target": noise_file()},
                         data={"points": "[[1, 2]]", "model": str(tmp_path)})  # fmt: skip
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("given", "displayed"),
    [("../../etc/passwd", "passwd"), (r"C:\cats\tom.jpg", "tom.jpg"), ("a\nb\x00.png", "ab.png"), (None, "image"),
     ("/", "image"), ("x" * 300, "x" * 80)],
)  # fmt: skip
def test_a_file_name_of_a_client_is_only_a_label(given, displayed):
    assert display_name(given) == displayed
