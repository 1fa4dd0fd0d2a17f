"""SIGKILL at random points, then the same command again: nothing is lost and nothing is there twice.

The same of `train` is in `tests/training/test_resume.py`.
"""

import json
import random
import subprocess
import sys

import pytest

from tests.faults.runs import EVERYTHING, RESULTS, SEEDS, held_bytes

OTHERS = ("points.csv", "points.coco.json", "review.html")
KILLS = 6
KILLS_ON_RAY = 2  # which takes seconds to start


@pytest.fixture(scope="module")
def run(work):
    """Return how a run ends that is killed at so many bytes of some files."""
    command = [sys.executable, "-m", "tests.faults.runs", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(verb, out, limit=0, files=EVERYTHING):
            process.stdin.write(f"{verb} {limit} {files} {out}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield run
        process.stdin.close()


def content(out, verb):
    """What each file of results holds, lines without how long each took."""
    paths = sorted(out.glob(RESULTS[verb]))
    if verb == "features":
        return [path.read_bytes() for path in paths]
    return [[{**json.loads(line), "seconds": None} for line in path.read_text().splitlines()] for path in paths]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("verb", RESULTS)
def test_a_run_killed_at_random_points_ends_as_an_unbroken_one(verb, seed, run, tmp_path):
    kills = KILLS
    if verb == "features":
        pytest.importorskip("pyarrow", reason="the scale extra is not installed")
    if verb.endswith("-ray"):
        pytest.importorskip("ray", reason="the scale extra is not installed")
        kills = KILLS_ON_RAY
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(verb, whole) == "ended 0"
    chance = random.Random(f"{verb} {seed}")
    size, everything = held_bytes(whole, RESULTS[verb]), held_bytes(whole, EVERYTHING)
    limits = sorted(chance.randrange(1, size) for _ in range(kills))
    ended = [run(verb, killed, limit, RESULTS[verb]) for limit in limits]
    assert ended.count("killed") >= kills // 2  # a kill may come too late
    # and when the results are there, and the files made of them are being written
    ended += [run(verb, killed, chance.randrange(size, everything)) for _ in range(kills // 2)]
    assert set(ended) <= {"killed", "ended 0"}
    assert run(verb, killed) == "ended 0"
    assert content(killed, verb) == content(whole, verb)
    for name in OTHERS if verb in ("propagate", "propagate-ray") else ():
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
