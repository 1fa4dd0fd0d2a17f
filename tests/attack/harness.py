"""A server process, its memory, and an honest client beside an attack. Linux only, on the loopback address only."""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.helpers import noise_file

MAX_HEALTH_SECONDS = 1.0
MAX_MATCH_SECONDS = 5.0
MAX_MEGABYTES = 1500
BOUNDARY = "honest-boundary"


@dataclass
class ServerProcess:
    """A server in a process of its own."""

    process: subprocess.Popen
    host: str
    port: int
    log: Path

    def peak_megabytes(self) -> float:
        """Return the largest resident memory since the start."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1000

    def open_descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def request(self, method: str, path: str, body: bytes = b"", timeout: float = 30, **headers: str) -> tuple:
        """Send one request on a connection of its own: (status, headers, body)."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, named)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def post_json(self, path: str, content: object, **headers: str) -> tuple:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.request("POST", path, body, Content_Type="application/json", **headers)


@contextmanager
def running(command: list[str]) -> Iterator[ServerProcess]:
    """Run a command that starts a server and prints its address."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            try:
                found = None
                while found is None:
                    line = process.stdout.readline().decode()
                    assert line, log.read_text()[-2000:]
                    found = re.search(r"http://[\d.]+:\d+", line)
                address = urlsplit(found[0])
                server = ServerProcess(process, address.hostname, address.port, log)
                server.request("GET", "/health")  # the address is printed before the loop runs
                yield server
            finally:
                process.kill()


def small_server(*label_studio: str, **settings: object) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "tests.attack.server", json.dumps(settings), *label_studio]


def multipart(fields: dict[str, str], files: list[tuple[str, bytes]]) -> bytes:
    """Encode a form, to be sent with `FORM`."""
    parts = [f'name="{name}"\r\n\r\n'.encode() + value.encode() for name, value in fields.items()]
    parts += [f'name="{name}"; filename="{name}.png"\r\n\r\n'.encode() + data for name, data in files]
    start = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode()
    return b"".join(start + part + b"\r\n" for part in parts) + f"--{BOUNDARY}--\r\n".encode()


FORM = {"Content_Type": f"multipart/form-data; boundary={BOUNDARY}"}
MATCH = multipart({"points": "[[10, 20]]"}, [("source", noise_file()), ("target", noise_file(80, 50))])


@dataclass
class HonestClient:
    """Asks for `/health` and for matches in turn, and keeps the longest times."""

    server: ServerProcess
    health: list[float] = field(default_factory=list)
    matches: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def visit(self) -> None:
        for times, ask in ((self.health, self._health), (self.matches, self._match)):
            started = time.monotonic()
            try:
                ask()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{ask.__name__}: {error!r}")
            times.append(time.monotonic() - started)

    def _health(self) -> None:
        self._note(*self.server.request("GET", "/health"))

    def _match(self) -> None:
        started = time.monotonic()
        status, headers, body = self.server.request("POST", "/match", MATCH, **FORM)
        while status == 503 and time.monotonic() - started < MAX_MATCH_SECONDS:  # as the page does
            time.sleep(float(headers["Retry-After"]))
            status, headers, body = self.server.request("POST", "/match", MATCH, **FORM)
        self._note(status, headers, body)

    def _note(self, status: int, _: object, body: bytes) -> None:
        if status != 200:
            self.failures.append(f"{status} {body[:200]!r}")


@contextmanager
def honest_client_beside(server: ServerProcess) -> Iterator[HonestClient]:
    """Let an honest client ask all the time; afterwards check that it was served and that memory was bounded."""
    client = HonestClient(server)
    over = threading.Event()

    def visit_until_over() -> None:
        while not over.is_set():
            client.visit()
            over.wait(0.05)

    thread = threading.Thread(target=visit_until_over)
    thread.start()
    try:
        yield client
    finally:
        over.set()
        thread.join()
    client.visit()  # nothing needs a restart
    assert not client.failures
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # other processes slow the server down by about this
    assert max(client.health) < MAX_HEALTH_SECONDS * busy, client.health
    assert max(client.matches) < MAX_MATCH_SECONDS * busy, client.matches
    assert server.peak_megabytes() < MAX_MEGABYTES
