"""A static host as anyone has one, `http.server`, that remembers what it was asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class StaticHost:
    address: str
    asked: list[tuple[str, str, int]] = field(default_factory=list)  # method, path and bytes of the body


@contextmanager
def hosting(folder: Path) -> Iterator[StaticHost]:
    """Serve a folder on a free port of this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, *_: object) -> None:
            host.asked.append((self.command, self.path, int(self.headers.get("Content-Length") or 0)))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    host = StaticHost(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
