"""Attacks on the server, each bounded in count and time. They return what was observed; tests say what is right."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from tests.attack.harness import BOUNDARY, FORM, ServerProcess, multipart
from tests.helpers import noise_file

MIB = 2**20


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def read_until_closed(connection: socket.socket, seconds: float) -> bytes:
    """Read what the server sends until it closes the connection or is silent for long."""
    received = b""
    connection.settimeout(seconds)
    with suppress(OSError):
        while part := connection.recv(65536):
            received += part
    return received


def status_of(response: bytes) -> int | None:
    return int(response.split(b" ", 2)[1]) if response.startswith(b"HTTP/") else None


@contextmanager
def connections(server: ServerProcess, count: int, data: bytes) -> Iterator[list[socket.socket]]:
    """Open connections that send some bytes and then nothing."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            with suppress(OSError):
                opened.append(stack.enter_context(socket.create_connection((server.host, server.port), 5)))
                opened[-1].sendall(data)
        yield opened


def length_and_chunks(server: ServerProcess, path: str, megabytes: int) -> tuple[int | None, int]:
    """Announce ten bytes and send megabytes in chunks. Returns the status and how many megabytes could be sent."""
    sent = 0
    with socket.create_connection((server.host, server.port), 5) as connection:
        connection.settimeout(5)
        connection.sendall(head(path, "Content-Length: 10", "Transfer-Encoding: chunked", "Content-Type: text/plain"))
        time.sleep(0.2)
        with suppress(OSError):
            for _ in range(megabytes):
                connection.sendall(b"100000\r\n" + b" " * MIB + b"\r\n")
                sent += 1
    return _status_without_body(server, path), sent


def _status_without_body(server: ServerProcess, path: str) -> int | None:
    """Send only the head of such a request, so that no reset can discard the response."""
    with socket.create_connection((server.host, server.port), 5) as connection:
        connection.sendall(head(path, "Content-Length: 10", "Transfer-Encoding: chunked"))
        return status_of(read_until_closed(connection, 3))


def hostile_json(size: int) -> dict[str, bytes]:
    """Bodies of about `size` bytes that are costly to parse or to validate."""
    fields = size // 12
    return {
        "unknown keys": b"{" + b",".join(b'"%07d":1' % number for number in range(fields)) + b"}",
        "empty objects": b'{"source":"a","target":"b","matches":[' + b",".join([b"{}"] * (size // 3 - 20)) + b"]}",
        "empty lists": b'{"source":"a","target":"b","points":[' + b",".join([b"[]"] * (size // 3 - 20)) + b"]}",
        "empty points": b'{"pictures":[' + b",".join([b'{"picture":"a","points":[{}]}'] * (size // 30 - 5)) + b"]}",
        "deep": b"[" * size,
        "long number": b'{"points":' + b"9" * (size - 20) + b"}",
        "long string": b'{"token":"' + b"x" * (size - 20) + b'"}',
    }


def post_json_together(server: ServerProcess, requests: list[tuple[str, bytes]], clients: int = 8) -> list[int]:
    """Post bodies from several clients at once. Returns the statuses, 0 where the connection was cut."""

    def post(request: tuple[str, bytes]) -> int:
        try:
            return server.post_json(*request)[0]
        except OSError:
            return 0

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(post, requests))


def hostile_forms() -> dict[str, bytes]:
    """Forms of a few megabytes that are costly to parse."""
    picture = noise_file()
    start = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="a"'.encode()
    return {
        "many fields": (start + b"\r\n\r\nx\r\n") * 20_000,
        "many files": (start + b'; filename="b"\r\n\r\nx\r\n') * 20_000,
        "large field": multipart({"points": "[" * 2 * MIB}, [("source", picture), ("target", picture)]),
        "wrong points": multipart({"points": "[" + "[]," * 20_000 + "[]]"}, [("source", picture), ("target", picture)]),
        "long header": start + b"; x=" + b"y" * 2 * MIB,
        "many headers": start + b"\r\nX: y" * 300_000,
        "line ends": start + b'; filename="b"\r\n\r\n' + b"\r\n--" * (MIB // 2),
        "no end": b"\r" * 2 * MIB,
    }


def unread_responses(server: ServerProcess, count: int, seconds: float) -> list[int]:
    """Ask for more images than fit into the system's buffers and read nothing for a while.

    Returns the bytes that could be read afterwards on each connection.
    """
    data = multipart({}, [("picture", noise_file(1280, 1280, "JPEG", quality=95))])
    _, headers, body = server.request("POST", "/pictures", data, **FORM)
    cookie = headers["Set-Cookie"].split(";")[0]
    asked = head(f"/pictures/{json.loads(body)['id']}", f"Cookie: {cookie}", method="GET")
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((server.host, server.port))
            connection.sendall(asked * 8)
            opened.append(connection)
        time.sleep(seconds)
        return [len(read_until_closed(connection, 1)) for connection in opened]
