"""Another server, on this machine: what it answers is set by each test, and what it was asked is kept."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.helpers import noise_file

Answer = tuple[int, dict[str, str], bytes] | Callable[[BaseHTTPRequestHandler], None]
IMAGE: Answer = (200, {"Content-Type": "image/png"}, noise_file())


class OtherServer:
    """Answers by path, without its query; `asked` has the method, the path and the headers of each request."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append((self.command, self.path, dict(self.headers)))
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = owner.answers.get(self.path.partition("?")[0], (404, {}, b"nothing here"))
                if callable(answer):
                    answer(self)
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def other_server(answers: dict[str, Answer]) -> Iterator[OtherServer]:
    server = OtherServer(answers)
    try:
        yield server
    finally:
        server.close()


def drip(first: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send these bytes and then one more from time to time, until the client leaves."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        try:
            handler.wfile.write(first)
            while True:
                handler.wfile.write(b"x")
                time.sleep(0.02)
        except OSError:
            handler.close_connection = True

    return answer
