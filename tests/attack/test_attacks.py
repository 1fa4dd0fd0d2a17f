"""Under each attack an honest client is served, memory stays bounded and nothing needs a restart."""

import signal
import socket
import sys
import time

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")
if not sys.platform.startswith("linux"):
    pytest.skip("the memory of the server is read from /proc", allow_module_level=True)

from tests.attack import attacks
from tests.attack.attacks import MIB, connections, head, read_until_closed, status_of
from tests.attack.harness import FORM, honest_client_beside, running, small_server
from tests.helpers import wait_until

SECONDS = 1.0  # what the server under attack waits for a client
LOG_BYTES = 20_000


@pytest.fixture(scope="module")
def server():
    with running(small_server(receive_seconds=SECONDS, receiving_bytes=16 * MIB, request_bytes=8 * MIB)) as server:
        server.request("POST", "/example")
        yield server


def wait_for_answer(connection):
    return status_of(read_until_closed(connection, SECONDS + 3))


@pytest.mark.parametrize("path", ["/signin", "/pictures", "/health", "/nothing"])
def test_a_length_together_with_chunks_is_refused_and_not_read(server, path):
    with honest_client_beside(server):
        status, megabytes = attacks.length_and_chunks(server, path, 100)
    assert status == 411
    assert megabytes < 50  # what fits into the buffers of both sides


def test_json_above_the_limit_of_its_route_is_refused(server):
    large = attacks.hostile_json(2 * MIB)
    paths = ["/signin", "/pairs/match", "/drawing", "/example", "/nothing"]
    with honest_client_beside(server):
        statuses = attacks.post_json_together(server, [(path, body) for path in paths for body in large.values()])
    assert set(statuses) <= {413, 0}
    assert statuses.count(413) > len(statuses) / 2


def test_hostile_json_within_the_limit_of_its_route_is_refused(server):
    bodies = [(path, body) for path in ("/pairs/match", "/drawing") for body in attacks.hostile_json(250_000).values()]
    bodies += [("/signin", body) for body in attacks.hostile_json(4_000).values()]
    with honest_client_beside(server):
        assert set(attacks.post_json_together(server, bodies)) == {422}


@pytest.mark.parametrize("name", attacks.hostile_forms())
def test_a_hostile_form_is_refused(server, name):
    with honest_client_beside(server):
        for path in ("/match", "/pictures"):
            assert server.request("POST", path, attacks.hostile_forms()[name], **FORM)[0] in (400, 422)


def test_bodies_that_are_announced_and_never_sent_are_not_waited_for(server):
    announced = head("/propagate", f"Content-Length: {8 * MIB}", "Content-Type: multipart/form-data; boundary=x")
    with honest_client_beside(server), connections(server, 80, announced) as opened:
        assert [wait_for_answer(connection) for connection in opened[::16]] == [408] * 5


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(server):
    with honest_client_beside(server), connections(server, 20, head("/signin", "Content-Length: 4000")) as opened:
        started = time.monotonic()
        while time.monotonic() - started < SECONDS + 1:
            for connection in opened:
                connection.sendall(b" ")
            time.sleep(0.1)
        assert {status_of(connection.recv(4096)) for connection in opened} == {408}


def test_slow_uploads_that_fill_the_memory_give_way(server):
    announced = head("/propagate", f"Content-Length: {7 * MIB}", f"Content-Type: {FORM['Content_Type']}")
    body = attacks.multipart({}, [("source", b"x" * 6 * MIB)])[: 5 * MIB]
    with honest_client_beside(server), connections(server, 6, announced + body) as opened:
        assert {wait_for_answer(connection) for connection in opened} <= {408, 503}


@pytest.mark.parametrize(
    "sent", [b"", b"POST /signin HTTP/1.1\r\nHost: localhost\r\nX-", head("/health", method="GET") * 2]
)
def test_connections_that_stall_are_closed(server, sent):
    with honest_client_beside(server), connections(server, 300, sent) as opened:
        wait_until(lambda: server.open_descriptors() < 256, 5)
        started = time.monotonic()
        read_until_closed(opened[-1], 10)  # also a kept-alive one, after five seconds of uvicorn's own
        assert time.monotonic() - started < SECONDS + 6


def test_responses_that_are_not_read_are_dropped(server):
    with honest_client_beside(server):
        assert max(attacks.unread_responses(server, 30, SECONDS + 1)) < 8 * MIB  # of 18 MB


def test_what_is_no_http_gets_the_security_headers_and_fills_no_log(server):
    before = server.log.stat().st_size
    with honest_client_beside(server):
        for _ in range(200):
            with socket.create_connection((server.host, server.port), 5) as connection:
                connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
                answer = read_until_closed(connection, 5)
    assert status_of(answer) == 400
    assert b"X-Content-Type-Options: nosniff" in answer
    assert server.log.stat().st_size - before < LOG_BYTES


def test_the_log_of_all_attacks_is_short_and_has_no_traceback(server):
    log = server.log.read_text()
    assert len(log) < LOG_BYTES
    assert "Traceback" not in log
    assert "out of system resource" not in log


@pytest.fixture
def patient_server():
    with running(small_server(receive_seconds=60.0)) as server:
        yield server


def test_the_server_stops_within_ten_seconds_despite_a_request_without_its_body(patient_server):
    with connections(patient_server, 3, head("/signin", "Content-Length: 100")):
        time.sleep(0.3)
        patient_server.process.send_signal(signal.SIGTERM)
        patient_server.process.wait(10)
    assert patient_server.process.returncode == -signal.SIGTERM
