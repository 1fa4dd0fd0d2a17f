"""A short run of the fuzzer, in a process of its own because it limits its memory."""

import subprocess
import sys

CASES = 150


def test_bad_input_ends_in_a_right_result_or_an_error_of_our_own():
    command = [sys.executable, "-m", "tests.fuzz.run", "--cases", str(CASES), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    read, refused, faults = map(int, done.stdout.splitlines()[-1].split("|")[2:5])
    assert (read + refused, faults) == (CASES, 0)
    assert read > CASES // 10  # whole pictures among them
    assert refused > CASES // 3
