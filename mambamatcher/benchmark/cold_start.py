"""Time and memory of the first pair in a new process."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FirstPair:
    """Time and memory of the first pair in a new process.

    Attributes:
        side: Side of the images in pixels.
        low_memory: Whether the model was loaded with `low_memory`.
        start_seconds: Until the interpreter runs its first line.
        import_torch_seconds: Importing torch.
        import_seconds: Importing the package and everything it needs except torch.
        load_seconds: Loading the model.
        first_pair_seconds: Matching the first pair.
        cpu_seconds: Processor time of all threads up to the first match, without importing torch.
        peak_mib: Peak memory. `None` outside Linux.
    """

    side: int
    low_memory: bool
    start_seconds: float
    import_torch_seconds: float
    import_seconds: float
    load_seconds: float
    first_pair_seconds: float
    cpu_seconds: float
    peak_mib: float | None

    @property
    def cold_start_seconds(self) -> float:
        """Time from the start of the process to its first match, without importing torch."""
        return self.start_seconds + self.import_seconds + self.load_seconds + self.first_pair_seconds


_FIRST_PAIR = """
import json, sys, time
spawned, folder, side, low_memory = float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"
started, cpu_started = time.time(), time.process_time()
import torch
imported_torch, cpu_imported_torch = time.time(), time.process_time()
import numpy as np
from mambamatcher import Matcher
imported = time.time()
matcher = Matcher.from_pretrained(folder, low_memory=low_memory)
loaded = time.time()
rng = np.random.default_rng(0)
matcher.match(*(rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(2)), [(1, 1)])
done, cpu = time.time(), time.process_time() - (cpu_imported_torch - cpu_started)
from mambamatcher.benchmark.measurement import peak_mib
moments = [spawned, started, imported_torch, imported, loaded, done]
print(json.dumps([*(after - before for before, after in zip(moments, moments[1:])), cpu, peak_mib()]))
"""


def measure_first_pair(folder: Path, side: int, low_memory: bool) -> FirstPair:
    """Match a first pair with a saved model in a new process."""
    command = [sys.executable, "-c", _FIRST_PAIR, str(time.time()), str(folder), str(side), str(int(low_memory))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return FirstPair(side, low_memory, *json.loads(done.stdout))
