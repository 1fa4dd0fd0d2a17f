"""A short run of the fuzzer, in a process of its own because it limits its memory."""

import subprocess
import sys

import numpy as np

from mambamatcher.errors import InputError
from tests.fuzz import run

CASES = 150


def test_bad_input_ends_in_a_right_result_or_an_error_of_our_own():
    command = [sys.executable, "-m", "tests.fuzz.run", "--cases", str(CASES), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    read, refused, faults = map(int, done.stdout.splitlines()[-1].split("|")[2:5])
    assert (read + refused, faults) == (CASES, 0)
    assert read > CASES // 10  # whole pictures among them
    assert refused > CASES // 3


def test_an_error_of_our_own_for_want_of_memory_is_a_fault(monkeypatch, tmp_path):
    def action() -> None:
        try:
            np.empty(1 << 60)
        except MemoryError as error:
            try:
                raise InputError("cannot decode the image") from error
            except InputError as again:
                raise InputError("cannot decode upload") from again

    monkeypatch.setattr(run, "MAKERS", (lambda rng, folder: ("picture", action),))
    assert run.run_case(0, 0, tmp_path)[1] == "fault"
