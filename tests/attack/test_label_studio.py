"""A backend of Label Studio serves its other clients, whatever that server does and whatever it is asked."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")
if not sys.platform.startswith("linux"):
    pytest.skip("the memory of the server is read from /proc", allow_module_level=True)

from tests.attack import attacks
from tests.attack.attacks import MIB
from tests.attack.harness import honest_client_beside, running, small_server
from tests.helpers import wait_until
from tests.web.other_server import IMAGE, drip, other_server

CONFIG = """<View><Image name="photo" value="$image"/>
<KeyPointLabels name="parts" toName="photo"><Label value="nose"/></KeyPointLabels></View>"""
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n\r\n"


@pytest.fixture(scope="module")
def label_studio():
    answers = {"/data/slow": drip(HEAD), "/data/endless": drip(HEAD + bytes(30 * MIB)), "/data/a.png": IMAGE}
    with other_server(answers) as server:
        yield server


@pytest.fixture(scope="module")
def server(label_studio):
    with running(small_server(label_studio.url, "1")) as server:
        yield server


def ask(server, address, tasks=1):
    body = {"tasks": [{"data": {"image": address}}] * tasks, "label_config": CONFIG}
    return server.post_json("/predict", body)[0]


@pytest.mark.parametrize("address", ["/data/slow", "/data/endless"])
def test_images_that_never_end_hold_up_no_other_client(server, address):
    with honest_client_beside(server), ThreadPoolExecutor(12) as clients:
        assert set(clients.map(lambda _: ask(server, address), range(12))) == {400}
    assert ask(server, "/data/a.png") == 200


def test_many_tasks_at_once_hold_up_no_other_client(server):
    with honest_client_beside(server), ThreadPoolExecutor(4) as clients:
        assert set(clients.map(lambda _: ask(server, "/data/a.png", 12), range(4))) == {200}


def test_hostile_json_is_refused(server):
    bodies = [("/predict", body) for body in attacks.hostile_json(3 * MIB).values()]
    bodies += [("/setup", body) for body in attacks.hostile_json(200_000).values()]
    with honest_client_beside(server):
        assert set(attacks.post_json_together(server, bodies)) == {422}


def test_the_server_stops_within_ten_seconds_although_an_image_never_ends(label_studio):
    asked = len(label_studio.asked)
    with running(small_server(label_studio.url, "60")) as server, ThreadPoolExecutor(1) as clients:
        waiting = clients.submit(ask, server, "/data/slow")
        wait_until(lambda: len(label_studio.asked) > asked)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(10)
        with suppress(OSError, HTTPException):  # it got an answer or none
            waiting.result()
