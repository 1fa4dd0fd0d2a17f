"""SIGKILL at random points, then the same command again: nothing is lost and nothing is there twice."""

import json
import random
import subprocess
import sys

import pytest

RESULTS = {"propagate": "points.jsonl", "evaluate": "predictions.jsonl"}
OTHERS = {"propagate": ("points.csv", "points.coco.json", "review.html"), "evaluate": ()}
KILLS = 8


def runs(verb, folder, out, *limits):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.runs", verb, folder, out],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, errors = process.communicate("".join(f"{limit}\n" for limit in limits))
    assert process.returncode == 0, errors
    return output.splitlines(), errors


def lines(path):
    """All lines, without how long each took."""
    return [{**json.loads(line), "seconds": None} for line in path.read_text().splitlines()]


@pytest.mark.parametrize("verb", RESULTS)
def test_a_run_killed_at_random_points_ends_as_an_unbroken_one(verb, work, tmp_path):
    assert runs(verb, work, tmp_path / "whole", 0)[0] == ["ended 0"]
    whole = tmp_path / "whole" / RESULTS[verb]
    chance = random.Random(f"{verb} 0")
    limits = sorted(chance.randrange(1, whole.stat().st_size) for _ in range(KILLS))
    ended, errors = runs(verb, work, tmp_path / "killed", *limits, 0)
    assert ended[-1] == "ended 0", errors
    assert ended.count("killed") >= KILLS // 2  # a kill may come too late
    assert set(ended) <= {"killed", "ended 0"}, errors
    assert lines(tmp_path / "killed" / RESULTS[verb]) == lines(whole)
    for name in OTHERS[verb]:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
