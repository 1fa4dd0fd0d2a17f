"""Decode image files in processes with limits of time and memory, which are killed and replaced where they exceed them.

A worker writes a line when it is ready. A request is a line of JSON, followed by the content of the file unless it has
a path. The answer is a line of JSON, followed by the pixels unless it is an error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any

from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.decoding import decode

SECONDS = 30.0  # wall clock; a progressive JPEG of 100 million pixels of noise took 19 s on two busy, slow cores
BYTES, BYTES_PER_PIXEL = 256 << 20, 24  # of memory: a rotated RGBA image of that size took 19 bytes per pixel in all


class DecodingWorkers:
    """Processes that decode one image file at a time. Threads may share them; each request has a process for itself.

    Args:
        seconds: Time limit of a request.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._idle: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()
        if sys.platform != "win32":  # a forked process must not talk to the workers of its parent
            os.register_at_fork(after_in_child=self._idle.clear)

    def decode(
        self, content: Path | bytes, name: str, max_pixels: int, formats: list[str] | None = None
    ) -> Image.Image:
        """Decode an image file to an upright RGB image, as `decoding.decode` does.

        Args:
            content: A path, or the content of a file.
            name: Name of the file for error messages.
            max_pixels: Limit on width times height; the limit of memory follows from it.
            formats: Pillow's names of the formats to accept; None for all.

        Raises:
            InputError: The file cannot be decoded, or not within the limits.
        """
        with self._lock:
            process = self._idle.pop() if self._idle else None
        process = process or start_process(serve)
        expired: list[bool] = []

        def expire() -> None:
            expired.append(True)
            process.kill()

        request = {"name": name, "max_pixels": max_pixels, "formats": formats, "seconds": self.seconds}
        place = {"bytes": len(content)} if isinstance(content, bytes) else {"path": str(content.absolute())}
        timer = Timer(self.seconds, expire)
        timer.start()
        try:
            image = _ask(process, {**request, **place}, content if isinstance(content, bytes) else b"")
        except (OSError, EOFError) as error:
            process.kill()
            process.wait()
            reason = f"that takes more than {self.seconds:g} seconds" if expired else "its decoder crashed"
            raise InputError(f"cannot decode {name}: {reason}; save it again with another program") from error
        finally:
            timer.cancel()
        timer.join()
        if not expired:  # while the answer was read
            with self._lock:
                self._idle.append(process)
        if isinstance(image, str):
            raise InputError(image)
        return image


def start_process(serve: Callable[[], None]) -> subprocess.Popen[bytes]:
    """Start a process that runs a function of a module, and wait for the line that says that it is ready."""
    # Not `-m`, which would also import from the working directory: this process sees what its parent sees.
    name = serve.__name__
    command = f"import sys; sys.path[:] = {sys.path!r}; from {serve.__module__} import {name}; {name}()"
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()  # until it has imported what it needs, which no request should pay for
    return process


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any], content: bytes) -> Image.Image | str:
    """Return the image, or the worker's error message."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n" + content)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline() or b"null")
    if answer is None:
        raise EOFError
    if "error" in answer:
        return str(answer["error"])
    size = tuple(answer["size"])
    return Image.frombytes("RGB", size, read_exactly(process.stdout, 3 * size[0] * size[1]))


def read_exactly(stream: IO[bytes], count: int) -> bytes:
    """Return that many bytes; a stream that ends before is an `EOFError`."""
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content


def serve() -> None:
    """Answer the requests on standard input until it ends: what a worker runs."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(b"ready\n")
    answers.flush()
    while line := requests.readline():
        request = json.loads(line)
        content = read_exactly(requests, request["bytes"]) if "bytes" in request else Path(request["path"])
        limit_process(request["max_pixels"], request["seconds"])
        try:
            image = decode(content, request["name"], request["max_pixels"], request["formats"])
            pixels = image.tobytes()
            answer: dict[str, Any] = {"size": image.size}
        except InputError as error:
            answer, pixels = {"error": str(error)}, b""
        answers.write(json.dumps(answer).encode() + b"\n" + pixels)
        answers.flush()


def limit_process(max_pixels: int, seconds: float) -> None:
    """Limit the memory of this process, and its time in case that its parent is killed before it is."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    for limit, value in (
        (resource.RLIMIT_DATA, BYTES + BYTES_PER_PIXEL * max_pixels),
        (resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 1),
    ):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


WORKERS = DecodingWorkers()  # of this process; none is started before it is needed
