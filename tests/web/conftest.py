from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mambamatcher.matching.matcher import Matcher

pytest.importorskip("fastapi", reason="the web extra is not installed")
from fastapi.testclient import TestClient

from mambamatcher.web.pictures import Picture, decode, keep
from mambamatcher.web.server import create_app
from mambamatcher.web.settings import Settings


def small_matcher() -> Matcher:
    """Nearest neighbours of untrained features on a small picture: quick, and the same picture finds itself."""
    return Matcher.from_preset("nearest", ["side=96", "backbone.weights=random"])


def picture(width: int = 60, height: int = 40, file_format: str = "PNG", seed: int = 0, **options: object) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    encoded = BytesIO()
    Image.fromarray(pixels).save(encoded, file_format, **options)
    return encoded.getvalue()


@pytest.fixture(scope="session")
def matcher() -> Matcher:
    with pytest.warns(UserWarning, match="untrained"):
        return small_matcher()


@pytest.fixture
def make_client(matcher):
    """Return a function that starts a server with the given settings and returns a client of it."""
    clients = []

    def make(**settings: object) -> TestClient:
        app = create_app(Settings(**settings), {"small": lambda: matcher, "other": lambda: matcher})
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=True)
        client.__enter__()
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(make_client) -> TestClient:
    return make_client()


def add(client: TestClient, data: bytes | None = None, name: str = "a.png") -> dict:
    answer = client.post("/pictures", files={"picture": (name, picture() if data is None else data)})
    assert answer.status_code == 201, answer.text
    return answer.json()


def keep_small() -> Picture:
    return keep(decode(picture(), "a.png", 10**6), "a.png")
