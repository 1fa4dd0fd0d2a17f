"""A campaign of attacks on `mambamatcher serve` with the model `lite`, with an honest client beside it.

    python -m benchmarks.attack --minutes 30 --save benchmarks/results

Attacks are drawn at random from `tests/attack/attacks.py`, with a seed, and run one after the other against one server
with its default limits, on the loopback address. The result has the count of each, the honest client's longest times
and the server's memory. The exit code is 1 if a limit of `tests/attack/harness.py` was exceeded.
"""

import argparse
import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mambamatcher.benchmark.measurement import circumstances
from tests.attack import attacks
from tests.attack.attacks import MIB, connections, head
from tests.attack.harness import (
    FORM,
    MAX_HEALTH_SECONDS,
    MAX_MATCH_SECONDS,
    MAX_MEGABYTES,
    HonestClient,
    ServerProcess,
    multipart,
    running,
)

JSON_PATHS = ("/signin", "/pairs/match", "/drawing", "/example", "/nothing")
UPLOAD_PATHS = ("/match", "/pictures", "/propagate")
STALL_SECONDS = 12.0  # longer than the server waits


def length_and_chunks(server: ServerProcess, rng: random.Random) -> None:
    attacks.length_and_chunks(server, rng.choice([*JSON_PATHS, *UPLOAD_PATHS]), 600)


def hostile_json(server: ServerProcess, rng: random.Random) -> None:
    bodies = list(attacks.hostile_json(rng.choice([4_000, 250_000, 1_000_000, 20 * MIB])).values())
    attacks.post_json_together(server, [(rng.choice(JSON_PATHS), rng.choice(bodies)) for _ in range(20)], clients=16)


def hostile_forms(server: ServerProcess, rng: random.Random) -> None:
    for body in attacks.hostile_forms().values():
        server.request("POST", rng.choice(UPLOAD_PATHS), body, **FORM)


def unsent_bodies(server: ServerProcess, rng: random.Random) -> None:
    path = rng.choice(UPLOAD_PATHS)
    with connections(server, rng.choice([64, 150, 300]), head(path, f"Content-Length: {20 * MIB}")):
        time.sleep(STALL_SECONDS)


def held_uploads(server: ServerProcess, rng: random.Random) -> None:
    """Send most of large bodies, more than the memory for all, then nothing."""
    announced = head("/propagate", f"Content-Length: {90 * MIB}", f"Content-Type: {FORM['Content_Type']}")
    body = multipart({}, [("source", b"x" * 60 * MIB)])[: 50 * MIB]
    with connections(server, rng.choice([4, 10]), announced + body):
        time.sleep(STALL_SECONDS)


def half_open(server: ServerProcess, rng: random.Random) -> None:
    sent = rng.choice([b"", b"GET / HT", b"POST /signin HTTP/1.1\r\nHost: localhost\r\nX-", b"\r\n"])
    with connections(server, rng.choice([100, 300, 600]), sent):
        time.sleep(STALL_SECONDS)


def unread_responses(server: ServerProcess, rng: random.Random) -> None:
    attacks.unread_responses(server, rng.choice([20, 100]), STALL_SECONDS)


def nonsense(server: ServerProcess, rng: random.Random) -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection((server.host, server.port), 5) as connection:
            connection.sendall(rng.randbytes(rng.randrange(1, 2000)))


def sign_ins(server: ServerProcess, _: random.Random) -> None:
    for _ in range(1001):
        server.post_json("/signin", {"token": ""})


ATTACKS: list[Callable[[ServerProcess, random.Random], None]] = [
    length_and_chunks,
    hostile_json,
    hostile_forms,
    unsent_bodies,
    held_uploads,
    half_open,
    unread_responses,
    nonsense,
    sign_ins,
]


def campaign(server: ServerProcess, minutes: float, seed: int) -> dict:
    """Attack for some minutes. Every attack comes once before any comes again."""
    rng = random.Random(seed)
    end = time.monotonic() + 60 * minutes
    counts: Counter[str] = Counter()
    worst: dict[str, dict[str, float]] = {}
    failures: list[str] = []
    queue: list[Callable[[ServerProcess, random.Random], None]] = []
    while time.monotonic() < end:
        queue = queue or rng.sample(ATTACKS, len(ATTACKS))
        attack = queue.pop()
        client = HonestClient(server)
        thread = threading.Thread(target=attack, args=(server, rng))
        thread.start()
        while thread.is_alive():
            client.visit()
            time.sleep(0.05)
        client.visit()
        name = attack.__name__
        counts[name] += 1
        seen = worst.setdefault(name, {"health, s": 0.0, "match, s": 0.0, "server's peak memory so far, MB": 0.0})
        seen["health, s"] = max(seen["health, s"], *client.health)
        seen["match, s"] = max(seen["match, s"], *client.matches)
        seen["server's peak memory so far, MB"] = server.peak_megabytes()
        failures += [f"{name}: {failure}" for failure in client.failures]
        print(name, {key: round(value, 2) for key, value in seen.items()}, client.failures[:3], flush=True)
    return {
        "attacks": dict(counts),
        "worst of the honest client, by attack": worst,
        "worst health, s": max(each["health, s"] for each in worst.values()),
        "worst match, s": max(each["match, s"] for each in worst.values()),
        "failed requests of the honest client": failures,
        "server's peak memory, MB": server.peak_megabytes(),
        "server's log, bytes": server.log.stat().st_size,
    }


def main() -> int:
    """Attack, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder for attack.json")
    arguments = parser.parse_args()
    with running([sys.executable, "-m", "mambamatcher", "serve", "--port", "0", "--model", "lite"]) as server:
        found = {
            "circumstances": asdict(circumstances()),
            "minutes": arguments.minutes,
            "seed": arguments.seed,
            "memory before, MB": server.peak_megabytes(),
            **campaign(server, arguments.minutes, arguments.seed),
        }
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.save is not None:
        (arguments.save / "attack.json").write_text(text + "\n")
    exceeded = (
        found["worst health, s"] > MAX_HEALTH_SECONDS
        or found["worst match, s"] > MAX_MATCH_SECONDS
        or found["server's peak memory, MB"] > MAX_MEGABYTES
    )
    return int(exceeded or bool(found["failed requests of the honest client"]))


if __name__ == "__main__":
    sys.exit(main())
