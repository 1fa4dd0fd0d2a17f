"""One test or more for every line of the promise: limits, content, sessions, time, headers, token."""

import json
import re
import struct
import tempfile
import threading
import time
import zlib

import pytest

from mambamatcher.matching.matcher import Matcher
from mambamatcher.web import page
from mambamatcher.web.pictures import decode, label
from mambamatcher.web.sessions import SessionStore
from tests.web.conftest import add, keep_small, picture

TOKEN = "a long enough secret"
INLINE = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"|javascript:|innerHTML"
FOREIGN = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost.evil"]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def match(client, points="[[1, 2]]", **files):
    return client.post("/match", files={"source": picture(), "target": picture(), **files}, data={"points": points})


def test_every_answer_carries_the_security_headers(client):
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
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"|javascript:|innerHTML", text), (
            path.name
        )


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.168.1.5"])
def test_addresses_and_localhost_are_answered(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_name_is_refused(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 421


def test_a_host_name_the_server_was_told_of_is_answered(make_client):
    client = make_client(host_names=("lab.example",))
    assert client.get("/health", headers={"host": "Lab.example:80"}).status_code == 200


def test_pages_of_other_sites_are_refused(client):
    assert client.post("/example", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/example", headers={"origin": "null"}).status_code == 403
    assert client.post("/example", headers={"origin": "http://localhost"}).status_code == 201


def test_with_a_token_nothing_but_the_page_is_answered_without_it(make_client):
    client = make_client(token=TOKEN)
    for path in ("/", "/static/app.js", "/health", "/openapi.json"):
        assert client.get(path).status_code == 200
    assert client.get("/models").status_code == 401
    assert match(client).status_code == 401
    assert client.post("/example").status_code == 401
    assert client.get("/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/models", headers={"Authorization": TOKEN}).status_code == 401
    assert client.get("/models", headers={"cookie": "mambamatcher_session=guess"}).status_code == 401
    assert client.get("/models", headers=BEARER).status_code == 200


def test_signing_in_takes_the_right_token(make_client):
    client = make_client(token=TOKEN)
    assert client.post("/signin", json={"token": "wrong"}).status_code == 401
    assert client.get("/models").status_code == 401
    assert client.post("/signin", json={"token": TOKEN}).status_code == 204
    assert client.get("/models").status_code == 200


def test_a_token_of_any_letters_is_compared_without_an_error(make_client):
    client = make_client(token=TOKEN)
    assert client.get("/models", headers={"Authorization": "Bearer gr\u00fc\u00df".encode()}).status_code == 401


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(client):
    cookie = client.post("/example").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert len(re.search(r"mambamatcher_session=([^;]+)", cookie)[1]) >= 43  # 256 bits


def test_one_client_cannot_see_use_or_remove_anothers_pictures(client, make_client):
    mine = add(client)["id"]
    client.cookies, own = type(client.cookies)(), client.cookies  # another client of the same server
    theirs = add(client)["id"]
    assert client.get(f"/pictures/{mine}").status_code == 404
    assert client.delete(f"/pictures/{mine}").status_code == 404
    for pair in ((mine, theirs), (theirs, mine)):
        asked = {"source": pair[0], "target": pair[1], "points": [[1, 2]]}
        assert client.post("/pairs/match", json=asked).status_code == 404
        matches = [{"source": [1, 2], "target": [3, 4], "confidence": 0.5, "matched": True}]
        asked = {"source": pair[0], "target": pair[1], "matches": matches}
        assert client.post("/drawing", json=asked).status_code == 404
    client.cookies = own
    assert client.get(f"/pictures/{mine}").status_code == 200


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0 EPSF-3.0\n", picture()[:200]],
    ids=["empty", "text", "svg", "postscript", "cut off"],
)
def test_what_is_not_a_picture_by_its_content_is_refused_whatever_its_name(client, data):
    answer = client.post("/pictures", files={"picture": ("cat.png", data, "image/png")})
    assert answer.status_code == 400
    assert "cat.png" in answer.json()["detail"]


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(make_client):
    client = make_client(picture_pixels=1000)
    answer = client.post("/pictures", files={"picture": ("a.png", picture(60, 40))})
    assert answer.status_code == 400
    assert "60x40 pixels, more than the 1,000 allowed" in answer.json()["detail"]


def test_a_file_of_too_many_bytes_is_refused(make_client):
    client = make_client(picture_bytes=1000)
    assert client.post("/pictures", files={"picture": ("a.png", picture())}).status_code == 413
    assert match(client).status_code == 413


def test_a_request_of_too_many_bytes_is_refused_before_it_is_read(make_client):
    client = make_client(request_bytes=1000)
    assert client.post("/pictures", files={"picture": ("a.png", picture())}).status_code == 413


def test_a_request_of_unknown_length_is_refused(client):
    assert client.post("/signin", content=iter([b"{}"])).status_code == 411
    assert client.post("/example", headers={"content-length": "-1"}).status_code == 411


def test_too_many_points_targets_and_pictures_are_refused(make_client):
    client = make_client(points=2, targets=2)
    assert match(client, json.dumps([[1, 2]] * 3)).status_code == 400
    files = [("source", picture())] + [("targets", picture())] * 3
    assert client.post("/propagate", files=files, data={"points": "[[1, 2]]"}).status_code == 413
    stored = [add(client) for _ in range(3)]  # a source and two targets
    assert client.post("/pictures", files={"picture": picture()}).status_code == 400
    asked = {"source": stored[0]["id"], "target": stored[1]["id"], "points": [[1, 2]] * 3}
    assert client.post("/pairs/match", json=asked).status_code == 400


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
def test_no_path_of_a_client_is_opened(client, path):
    add(client)
    assert client.get(path).status_code == 404


def test_a_models_folder_cannot_be_named_by_a_client(client, tmp_path):
    answer = client.post("/match", files={"source": picture(), "target": picture()},
                         data={"points": "[[1, 2]]", "model": str(tmp_path)})  # fmt: skip
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("given", "shown"),
    [("../../etc/passwd", "passwd"), (r"C:\cats\tom.jpg", "tom.jpg"), ("a\nb\x00.png", "ab.png"), (None, "picture"),
     ("/", "picture"), ("x" * 300, "x" * 80)],
)  # fmt: skip
def test_a_clients_file_name_is_only_a_label(given, shown):
    assert label(given) == shown


def test_uploads_never_touch_the_disk(client, monkeypatch):
    def refuse(*_):
        raise AssertionError("an upload was written to disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refuse)
    large = picture(1200, 1000, "BMP")
    assert len(large) > 3 * 2**20
    add(client, large)


def test_sessions_are_forgotten_after_their_time():
    now = [0.0]
    store = SessionStore(10**9, keep_seconds=60.0, clock=lambda: now[0])
    session = store.open()
    store.add(session, keep_small(), 10)
    now[0] = 59.0
    assert store.find(session.secret) is session  # and is used now
    now[0] = 118.0
    assert store.find(session.secret) is session
    now[0] = 179.0
    assert store.find(session.secret) is None
    assert (len(store), store.size) == (0, 0)


def test_pictures_and_what_the_matcher_remembers_of_them_go_by_themselves(make_client, matcher):
    client = make_client(keep_seconds=0.2)
    add(client)
    assert match(client).status_code == 200
    store = client.app.state.service.sessions
    deadline = time.monotonic() + 5
    while (len(store) or matcher._store._memory._entries) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(store) == 0
    assert not matcher._store._memory._entries


def test_memory_is_bounded_and_the_longest_idle_session_goes_first():
    now = [0.0]
    one = keep_small()
    store = SessionStore(3 * len(one.jpeg), keep_seconds=60.0, clock=lambda: now[0])
    sessions = [store.open() for _ in range(3)]
    for session in sessions:
        store.add(session, keep_small(), 10)
    store.find(sessions[0].secret)
    store.add(store.open(), keep_small(), 10)
    assert store.size <= store.max_bytes
    assert store.find(sessions[1].secret) is None
    assert store.find(sessions[0].secret) is sessions[0]


def test_one_session_cannot_have_more_than_the_whole_memory():
    one = keep_small()
    store = SessionStore(len(one.jpeg), keep_seconds=60.0)
    session = store.open()
    store.add(session, one, 10)
    with pytest.raises(ValueError, match="remove some first"):
        store.add(session, keep_small(), 10)


class Gate(Matcher):
    """A slow model: it waits until it is opened."""

    def __init__(self, matcher):
        super().__init__(matcher.model)
        self.opened = threading.Event()

    def prepare(self, *pictures):
        assert self.opened.wait(20)
        return super().prepare(*pictures)


def in_background(work):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def until(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_when_all_places_are_taken_a_client_is_told_to_come_back_and_others_are_still_answered(make_client, matcher):
    client = make_client(requests=2)
    service = client.app.state.service
    gate = Gate(matcher)
    service.models._loaded["small"] = gate
    waiting = [in_background(lambda: match(client)) for _ in range(2)]
    until(lambda: service.work.requests == 2)
    busy = match(client)
    assert busy.status_code == 503
    assert int(busy.headers["retry-after"]) > 0
    assert "busy" in busy.json()["detail"]
    assert client.get("/health").json()["requests"] == 2  # the event loop is free
    gate.opened.set()
    for thread, answers in waiting:
        thread.join(20)
        assert answers[0].status_code == 200
    assert match(client).status_code == 200


def test_bytes_of_all_requests_together_are_bounded(make_client, matcher):
    client = make_client(receiving_bytes=len(picture()) * 3)
    gate = Gate(matcher)
    client.app.state.service.models._loaded["small"] = gate
    thread, _ = in_background(lambda: match(client))
    until(lambda: client.app.state.service.work.requests == 1)
    assert match(client).status_code == 503
    gate.opened.set()
    thread.join(20)
    assert match(client).status_code == 200


def test_twenty_clients_at_once_are_answered(client):
    waiting = [in_background(lambda: match(client)) for _ in range(20)]
    for thread, answers in waiting:
        thread.join(60)
        assert answers[0].status_code == 200


def test_large_numbers_and_deep_nesting_are_refused_not_crashed_on(client):
    for points in ("[[1e999, 1]]", f"[[{'9' * 5000}, 1]]", "[" * 10_000, "[[1, 2]" * 10_000):
        assert match(client, points).status_code == 422


@pytest.mark.parametrize(("side", "words"), [(9_000, "9000x9000 pixels"), (60_000, "cannot read bomb")])
def test_a_decompression_bomb_is_refused_by_what_its_header_says(side, words):
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    chunks += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    with pytest.raises(ValueError, match=words):
        decode(b"\x89PNG\r\n\x1a\n" + chunks, "bomb", 40_000_000)
