"""Does memory stay constant? Sample the resident memory over many matches, then over many requests to a server.

    python benchmarks/soak.py --matches 10000 --requests 1000

Writes benchmarks/results/soak.json and docs/pictures/soak.png. Every match reads two files of another pair, so that
none is answered from the cache. Growth compares the highest sample of the last quarter with the highest of the first
quarter, after a warm-up of a tenth.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from io import BytesIO
from itertools import count
from pathlib import Path
from time import perf_counter, sleep

import httpx
import numpy as np
import uvicorn
from PIL import Image

from mambamatcher import Matcher
from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.model.checkpoint import load_pretrained, reconfigured
from mambamatcher.model.saved import SHIPPED
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings

IMAGES = 102  # 10,302 ordered pairs
POINTS = [(20.0, 30.0), (100.0, 90.0), (150.0, 60.0)]
CACHE_BYTES = (
    24 << 20
)  # at 128 px room for all features but few comparisons, so that memory of evicted ones must be freed
SAMPLES = 200  # of each curve
PAGE = 4096
ALLOWED = 0.03


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def write_images(folder: Path) -> list[Path]:
    """Write smooth random images of different sizes and formats."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(IMAGES):
        small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        size = int(rng.integers(160, 400)), int(rng.integers(120, 300))
        paths.append(folder / f"{number:02d}.{('jpg', 'png', 'webp')[number % 3]}")
        small.resize(size, Image.Resampling.BICUBIC).save(paths[-1])
    return paths


def pair(paths: list[Path], number: int) -> tuple[Path, Path]:
    """Return a different ordered pair for each number, until all are used."""
    return paths[number % len(paths)], paths[(number + 1 + number // len(paths)) % len(paths)]


def sample(label: str, total: int, step: Callable[[int], None]) -> list[tuple[int, float]]:
    """Take `total` steps and return (steps done, resident megabytes)."""
    every = max(1, total // SAMPLES)
    found = []
    started = perf_counter()
    for number in range(total):
        step(number)
        if (number + 1) % every == 0:
            found.append((number + 1, resident_megabytes()))
            if (number + 1) % (every * 20) == 0:
                print(
                    f"{label}: {number + 1} of {total}, {found[-1][1]:.0f} MB, {perf_counter() - started:.0f} s",
                    flush=True,
                )
    return found


def soak_matches(matcher: Matcher, paths: list[Path], total: int) -> list[tuple[int, float]]:
    return sample("matches", total, lambda number: _match(matcher, *pair(paths, number)))


def _match(matcher: Matcher, source: Path, target: Path) -> None:
    assert np.isfinite(matcher.match(source, target, POINTS).points).all()


def soak_requests(matcher: Matcher, paths: list[Path], total: int) -> list[tuple[int, float]]:
    """Send requests to a real server in this process, over the network."""
    config = uvicorn.Config(create_app(Settings(), {"model": lambda: matcher}), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    client = httpx.Client(base_url=f"http://localhost:{port}", timeout=300)
    numbers = count()

    def ask(_: int) -> None:
        files = [BytesIO(path.read_bytes()) for path in pair(paths, next(numbers))]
        answer = client.post(
            "/match", files={"source": ("a", files[0]), "target": ("b", files[1])}, data={"points": json.dumps(POINTS)}
        )
        assert answer.status_code == 200, answer.text

    try:
        return sample("requests", total, ask)
    finally:
        client.close()
        server.should_exit = True
        thread.join()


def growth(samples: list[tuple[int, float]]) -> float:
    """Return the relative growth of memory after the warm-up."""
    held = [megabytes for _, megabytes in samples[len(samples) // 10 :]]
    quarter = max(1, len(held) // 4)
    return max(held[-quarter:]) / max(held[:quarter]) - 1


def plot(curves: dict[str, list[tuple[int, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(5 * len(curves), 3.2), squeeze=False)
    for axis, (label, samples) in zip(axes[0], curves.items(), strict=True):
        axis.plot(*zip(*samples, strict=True))
        axis.set(xlabel=label, ylabel="resident memory, MB", title=f"growth after warm-up {growth(samples):+.1%}")
        axis.set_ylim(0, 1.2 * max(megabytes for _, megabytes in samples))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--side", type=int, help="input side of the embedded model; default: its own")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/soak.json"))
    parser.add_argument("--plot", type=Path, default=Path("docs/pictures/soak.png"))
    arguments = parser.parse_args()
    model = load_pretrained(SHIPPED["lite"])
    if arguments.side:
        model = reconfigured(model, replace(model.config, side=arguments.side))
    matcher = Matcher(model, cache_bytes=CACHE_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder))
        curves = {
            "matches": soak_matches(matcher, paths, arguments.matches),
            "requests": soak_requests(matcher, paths, arguments.requests),
        }
    result = {
        **asdict(circumstances()),
        "model": "the embedded model",
        "side": matcher.runtime.side,
        "cache_bytes": CACHE_BYTES,
        "growth": {label: growth(samples) for label, samples in curves.items()},
        "allowed": ALLOWED,
        "megabytes": curves,
    }
    arguments.out.write_text(json.dumps(result) + "\n")
    plot(curves, arguments.plot)
    for label, samples in curves.items():
        print(f"{label}: {samples[-1][0]}, {samples[-1][1]:.0f} MB at the end, growth {growth(samples):+.2%}")
    return int(max(result["growth"].values()) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
