"""Memory, sessions and concurrent requests of the server stay within their limits."""

import struct
import tempfile
import threading
import zlib

import pytest

from mambamatcher.matching.matcher import Matcher
from mambamatcher.web.sessions import SessionStore
from mambamatcher.web.uploads import decode
from tests.helpers import noise_file, wait_until
from tests.web.conftest import small_stored_image, upload
from tests.web.test_safety import request_match

TOKEN = "a long enough secret"
INLINE_CODE = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"|javascript:|innerHTML"
FOREIGN_HOSTS = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost.evil"]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_uploads_never_touch_the_disk(client, monkeypatch):
    def refuse(*_):
        raise AssertionError("an upload was written to disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refuse)
    large = noise_file(1200, 1000, "BMP")
    assert len(large) > 3 * 2**20
    upload(client, large)


def test_a_session_expires_after_its_idle_time():
    now = [0.0]
    store = SessionStore(10**9, keep_seconds=60.0, clock=lambda: now[0])
    session = store.open()
    store.add(session, small_stored_image(), 10)
    now[0] = 59.0
    assert store.find(session.secret) is session  # which resets the idle time
    now[0] = 118.0
    assert store.find(session.secret) is session
    now[0] = 179.0
    assert store.find(session.secret) is None
    assert (len(store), store.size) == (0, 0)


def test_images_and_their_cached_features_are_evicted_without_a_request(make_client, matcher):
    client = make_client(keep_seconds=0.2)
    upload(client)
    assert request_match(client).status_code == 200
    sessions = client.app.state.server.sessions
    wait_until(lambda: not len(sessions) and not matcher._store._memory._entries)


def test_memory_is_bounded_and_the_longest_idle_session_is_evicted_first():
    now = [0.0]
    one = small_stored_image()
    store = SessionStore(3 * len(one.jpeg), keep_seconds=60.0, clock=lambda: now[0])
    sessions = [store.open() for _ in range(3)]
    for session in sessions:
        store.add(session, small_stored_image(), 10)
    store.find(sessions[0].secret)
    store.add(store.open(), small_stored_image(), 10)
    assert store.size <= store.max_bytes
    assert store.find(sessions[1].secret) is None
    assert store.find(sessions[0].secret) is sessions[0]


def test_a_session_beyond_the_memory_for_all_sessions_loses_its_longest_unused_image():
    source, first, second = (small_stored_image() for _ in range(3))
    store = SessionStore(2 * len(source.jpeg), keep_seconds=60.0)
    session = store.open()
    store.add(session, source, 10)
    store.add(session, first, 10)
    session.find(source.id)
    store.add(session, second, 10)
    assert store.size <= store.max_bytes
    assert list(session.images) == [source.id, second.id]


class Gate(Matcher):
    """A slow model: it waits until the gate is opened."""

    def __init__(self, matcher):
        super().__init__(matcher.model)
        self.opened = threading.Event()

    def prepare(self, *images):
        assert self.opened.wait(60)
        return super().prepare(*images)


def in_background(work):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def test_requests_beyond_the_limit_get_503_while_the_event_loop_stays_responsive(make_client, matcher):
    client = make_client(requests=2)
    state = client.app.state.server
    gate = Gate(matcher)
    state.models._loaded["small"] = gate
    waiting = [in_background(lambda: request_match(client)) for _ in range(2)]
    wait_until(lambda: state.workers.requests == 2)
    busy = request_match(client)
    assert busy.status_code == 503
    assert int(busy.headers["retry-after"]) > 0
    assert "busy" in busy.json()["detail"]
    assert client.get("/health").json()["requests"] == 2  # answered by the event loop itself
    gate.opened.set()
    for thread, answers in waiting:
        thread.join(60)
        assert answers[0].status_code == 200
    assert request_match(client).status_code == 200


def test_the_total_size_of_requests_in_progress_is_limited(make_client, matcher):
    large = {"source": ("a.png", noise_file(300, 300))}
    client = make_client(receiving_bytes=int(1.5 * len(noise_file(300, 300))))
    gate = Gate(matcher)
    client.app.state.server.models._loaded["small"] = gate
    thread, _ = in_background(lambda: request_match(client, **large))
    wait_until(lambda: client.app.state.server.workers.requests == 1)
    assert request_match(client, **large).status_code == 503
    gate.opened.set()
    thread.join(60)
    assert request_match(client, **large).status_code == 200


def test_twenty_concurrent_requests_are_answered(client):
    waiting = [in_background(lambda: request_match(client)) for _ in range(20)]
    for thread, answers in waiting:
        thread.join(60)
        assert answers[0].status_code == 200


def test_large_numbers_and_deep_nesting_are_refused_without_a_crash(client):
    for points in ("[[1e999, 1]]", f"[[{'9' * 5000}, 1]]", "[" * 10_000, "[[1, 2]" * 10_000):
        assert request_match(client, points).status_code in (400, 422)


@pytest.mark.parametrize(("side", "words"), [(9_000, "9000x9000 pixels"), (60_000, "cannot read bomb")])
def test_a_decompression_bomb_is_refused_by_the_size_in_its_header(side, words):
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    chunks += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    with pytest.raises(ValueError, match=words):
        decode(b"\x89PNG\r\n\x1a\n" + chunks, "bomb", 40_000_000)
