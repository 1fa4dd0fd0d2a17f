"""Annotation tools in environments of their own, which `make test-tools` makes, and this server beside them."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.attack.harness import ServerProcess, running
from tests.helpers import wait_until
from tests.web.other_server import OtherServer, other_server

ROOT = Path(__file__).parents[2]
PHOTOS = ROOT / "mambamatcher" / "assets" / "photos"
RECORDED = ROOT / "tests" / "web" / "recorded"
LEGACY_TOKEN = "0123456789abcdef0123456789abcdef01234567"
EMAIL, PASSWORD = "annotator@example.com", "secret-password"
REFERENCE = ["--reference", str(PHOTOS / "cat.jpg"), "--points", str(PHOTOS / "cat.json")]


def program(tool: str, name: str = "python") -> str:
    """Return a program of a tool's environment, or skip the test."""
    path = ROOT / ".venv-tools" / tool / "bin" / name
    if not path.exists():
        pytest.skip(f"{tool} is not installed; make test-tools installs it")
    return str(path)


def serving(*options: str) -> "contextmanager[ServerProcess]":
    """Run `mambamatcher serve` with these options on a free port."""
    return running([sys.executable, "-m", "mambamatcher", "serve", "--port", "0", *REFERENCE, *options])


@contextmanager
def recording(server: ServerProcess, *paths: str) -> Iterator[OtherServer]:
    """Run a server that passes requests for these paths on; it keeps what it was asked, with `bodies`."""
    bodies: list[bytes] = []

    def forward(handler):
        bodies.append(handler.body)
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        connection.request(handler.command, handler.path, handler.body or None, dict(handler.headers))
        response = connection.getresponse()
        content = response.read()
        handler.send_response(response.status)
        handler.send_header("Content-Type", response.headers["Content-Type"])
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    with other_server(dict.fromkeys(paths, forward)) as recorder:
        recorder.bodies = bodies  # type: ignore[attr-defined]
        yield recorder


@pytest.fixture(scope="session")
def label_studio(tmp_path_factory) -> Iterator[str]:
    """A new Label Studio server with one user; yields its address."""
    command = program("label-studio", "label-studio")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("label-studio")
    settings = {
        "ML_BLOCK_LOCAL_IP": "false",  # both backends and webhooks, which come with a backend, may be on this machine
        "SSRF_PROTECTION_ENABLED": "false",
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
    }
    options = ["--no-browser", "--port", str(port), "--data-dir", str(folder)]
    user = ["--username", EMAIL, "--password", PASSWORD, "--user-token", LEGACY_TOKEN]
    url = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        try:
            return urlopen(f"{url}/health", timeout=5).status == 200
        except OSError:
            return False

    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [command, "start", *options, *user],
            stdout=log,
            stderr=log,
            env={**os.environ, **settings},
        )
        try:
            wait_until(is_up, seconds=900)  # it makes its database first
            yield url
        finally:
            process.kill()
            process.wait()
