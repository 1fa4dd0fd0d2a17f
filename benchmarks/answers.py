"""Response times: the requests of the web page to `mambamatcher serve`, and `propagate`, with the model `lite`.

    python benchmarks/answers.py --save benchmarks/results

A new server receives two photo-sized images as the page sends them, then twenty clicks with heat maps. Then twenty and
fifty clients do the same at once, each with its own images. All this with each runtime.
"""

import argparse
import io
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import httpx
from PIL import Image

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.synthetic import SyntheticPairs

RUNTIMES, CLIENTS, CLICKS, PROPAGATED, SHORT = ("onnx", "torch"), (20, 50), 20, 120, 20
RENDERED = 21  # pairs; further clients send them in another quality, so that the server computes them anew
SIZE = (1024, 768)


def main() -> None:
    """Measure, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="folder for answers.json")
    arguments = parser.parse_args()
    found: dict = {"circumstances": asdict(circumstances())}
    pairs = [SyntheticPairs(RENDERED, seed=7, size=SIZE)[number] for number in range(RENDERED)]
    with tempfile.TemporaryDirectory() as name:
        command = propagation(Path(name))
        for runtime in RUNTIMES:
            found[runtime] = {**serving(runtime, pairs), **propagating(command, Path(name), runtime)}
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.save is not None:
        (arguments.save / "answers.json").write_text(text + "\n")


def serving(runtime: str, pairs: list) -> dict:
    """Time one client alone, then many together."""
    with running_server(runtime) as (process, address):
        one = visit(address, pairs, 0)
        found = {
            "first answer, s": one[0],
            "click, median s": statistics.median(one[1:]),
            "click, longest s": max(one[1:]),
            "server's memory after one client, MB": resident_megabytes(process),
        }
        first = 1
        for count in CLIENTS:
            with ThreadPoolExecutor(count) as clients:
                started = time.perf_counter()
                many = list(clients.map(partial(visit, address, pairs), range(first, first + count)))
                passed = time.perf_counter() - started
            first += count
            answers = sum(map(len, many))
            found[f"{count} clients"] = {
                "answers": answers,
                "seconds": passed,
                "answers a second": answers / passed,
                "first answer, longest s": max(seconds[0] for seconds in many),
                "click, median s": statistics.median(second for seconds in many for second in seconds[1:]),
                "server's memory afterwards, MB": resident_megabytes(process),
            }
        return found


@contextmanager
def running_server(runtime: str):
    """Start `mambamatcher serve` on a free port."""
    command = [sys.executable, "-m", "mambamatcher", "serve", "--port", "0", "--model", "lite", "--runtime", runtime]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if address := re.search(r"http://[\d.]+:\d+", line):
                    while True:  # the address is printed before the model is ready
                        try:
                            httpx.get(address[0] + "/health").raise_for_status()
                            break
                        except httpx.HTTPError:
                            time.sleep(0.2)
                    yield process, address[0]
                    break
        finally:
            process.terminate()


def visit(address: str, pairs: list, number: int) -> list[float]:
    """Upload two images and click on the source. Return the seconds of the first answer and of each further click.

    Requests are repeated while the server is busy, as the page does. Any other problem ends the measurement.
    """
    pair = pairs[number % RENDERED]
    files = [encoded(image, 92 - number // RENDERED) for image in (pair.source.image, pair.target.image)]
    points = pair.source.keypoints[pair.source.visible]
    with httpx.Client(base_url=address, timeout=120) as client:
        started = time.perf_counter()
        ids = [ask(client, "/pictures", files={"picture": ("picture.jpg", file)})["id"] for file in files]
        seconds = []
        for click in range(CLICKS + 1):
            x, y = points[click % len(points)]
            asked = {"source": ids[0], "target": ids[1], "points": [[x + click // len(points), y]], "heatmaps": True}
            ask(client, "/pairs/match", json=asked)
            seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
    return seconds


def ask(client: httpx.Client, path: str, **content) -> dict:
    """Post a request, and repeat it while the server is busy."""
    while (answer := client.post(path, **content)).status_code == 503:
        time.sleep(float(answer.headers.get("Retry-After", 1)))
    answer.raise_for_status()
    return answer.json()


def encoded(image, quality: int) -> bytes:
    """Encode an image as JPEG, like a photo."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return file.getvalue()


def resident_megabytes(process: subprocess.Popen) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000


def propagation(folder: Path) -> list[str]:
    """Render a folder of targets and a shorter one. Return the command that propagates to the folder named next."""
    pairs = SyntheticPairs(PROPAGATED, seed=8, size=(640, 480), categories=["dog"])
    for number in range(PROPAGATED):
        image = Image.fromarray(pairs[number].target.image)
        for name in ("long", "short")[: 1 + (number < SHORT)]:
            (folder / name).mkdir(exist_ok=True)
            image.save(folder / name / f"{number:03d}.jpg", quality=92)
    source = pairs[0].source
    Image.fromarray(source.image).save(folder / "source.png")
    (folder / "points.json").write_text(json.dumps({"points": source.keypoints[source.visible].tolist()}))
    command = [sys.executable, "-m", "mambamatcher", "propagate", str(folder / "source.png"), "--model", "lite"]
    return [*command, "--points-file", str(folder / "points.json")]


def propagating(command: list[str], folder: Path, runtime: str) -> dict:
    """Time `propagate` over a long and a short folder. Start-up is the same, so the difference is the work."""
    seconds = []
    for name in ("long", "short"):
        started = time.perf_counter()
        places = [str(folder / name), "--out", str(folder / f"{name}-{runtime}"), "--runtime", runtime]
        subprocess.run([*command, *places], check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    per_second = (PROPAGATED - SHORT) / (seconds[0] - seconds[1])
    return {"propagated images a second": per_second, "propagate, start and 20 images, s": seconds[1]}


if __name__ == "__main__":
    main()
