"""Response times: the requests of the web page to `mambamatcher serve`, and `propagate`, with the model `lite`.

    python benchmarks/answers.py --save benchmarks/results

A new server receives two photo-sized images as the page sends them, then twenty clicks with heatmaps. Then twenty
clients do the same at once, each with its own images.
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
from pathlib import Path

import httpx
from PIL import Image

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.synthetic import SyntheticPairs

CLIENTS, CLICKS, PROPAGATED = 20, 20, 120
SIZE = (1024, 768)


def main() -> None:
    """Measure, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="folder for answers.json")
    arguments = parser.parse_args()
    found = {"circumstances": asdict(circumstances()), **serving(), **propagating()}
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.save is not None:
        (arguments.save / "answers.json").write_text(text + "\n")


def serving() -> dict:
    """Time one client alone, then twenty together."""
    with running_server() as (process, address):
        one = visit(address, 0)
        alone = resident_megabytes(process)
        with ThreadPoolExecutor(CLIENTS) as clients:
            started = time.perf_counter()
            many = list(clients.map(lambda number: visit(address, number), range(1, CLIENTS + 1)))
            passed = time.perf_counter() - started
        return {
            "first answer, s": one[0],
            "click, median s": statistics.median(one[1:]),
            "click, longest s": max(one[1:]),
            "clients at once": CLIENTS,
            "their answers": sum(map(len, many)),
            "their seconds": passed,
            "their first answer, longest s": max(answers[0] for answers in many),
            "their click, median s": statistics.median(second for answers in many for second in answers[1:]),
            "server's memory after one client, MB": alone,
            "server's memory after all, MB": resident_megabytes(process),
        }


@contextmanager
def running_server():
    """Start `mambamatcher serve` on a free port."""
    command = [sys.executable, "-m", "mambamatcher", "serve", "--port", "0", "--model", "lite"]
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


def visit(address: str, number: int) -> list[float]:
    """Upload two images and click on the source. Return the seconds of the first answer and of each further click.

    Requests are repeated while the server is busy, as the page does. Any other problem ends the measurement.
    """
    pair = SyntheticPairs(CLIENTS + 1, seed=7, size=SIZE)[number]
    files = [encoded(pair.source.image), encoded(pair.target.image)]
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


def encoded(image) -> bytes:
    """Encode an image as JPEG, like a photo."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=92)
    return file.getvalue()


def resident_megabytes(process: subprocess.Popen) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000


def propagating() -> dict:
    """Time `propagate` over a long and a short folder. Start-up is the same, so the difference is the work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = folder / "targets"
        targets.mkdir()
        pairs = SyntheticPairs(PROPAGATED, seed=8, size=(640, 480), categories=["dog"])
        for number in range(PROPAGATED):
            Image.fromarray(pairs[number].target.image).save(targets / f"{number:03d}.jpg", quality=92)
        source = pairs[0].source
        Image.fromarray(source.image).save(folder / "source.png")
        points = source.keypoints[source.visible].tolist()
        (folder / "points.json").write_text(json.dumps({"points": points}))
        started = time.perf_counter()
        command = [sys.executable, "-m", "mambamatcher", "propagate", str(folder / "source.png"), str(targets)]
        command += ["--points-file", str(folder / "points.json"), "--out", str(folder / "out")]
        subprocess.run(command, check=True, capture_output=True)
        whole = time.perf_counter() - started
        for number in range(20, PROPAGATED):
            (targets / f"{number:03d}.jpg").unlink()
        started = time.perf_counter()
        subprocess.run([*command[:-1], str(folder / "short")], check=True, capture_output=True)
        short = time.perf_counter() - started
    return {"propagated images a second": (PROPAGATED - 20) / (whole - short), "propagate, start, s": short}


if __name__ == "__main__":
    main()
