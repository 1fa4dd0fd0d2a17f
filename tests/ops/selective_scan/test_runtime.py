"""The runtime of the CPU kernels: threads, forked processes and the compilation cache."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import DataLoader, Dataset

from mambamatcher.ops import selective_scan

from . import oracle
from .oracle import Case

CASE = Case(dim=48, length=300, state=16)

EVERYTHING = """
import sys; sys.path.insert(0, ".")
from tests.ops.selective_scan.test_runtime import CASE, differentiate, digest
print(digest(differentiate().values()))
"""
OUTPUT = """
import sys; sys.path.insert(0, ".")
from tests.ops.selective_scan.test_runtime import CASE, digest, selective_scan
print(digest([selective_scan(**CASE.make(), **CASE.arguments())]))
"""
UNWRITABLE = """
import tempfile
def refuse(*args, **kwargs): raise PermissionError("read-only file system")
tempfile.TemporaryFile = refuse
"""


def differentiate(case: Case = CASE, seed: int = 0) -> dict[str, torch.Tensor]:
    def run(leaves: dict) -> tuple[torch.Tensor, torch.Tensor]:
        return selective_scan(**leaves, **case.arguments(), return_last_state=True, backend="cpu")

    return oracle.differentiate(case.make(seed), run)


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """Return a hash of all bits of the results."""
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors)).hexdigest()


def child(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


def test_one_two_and_four_threads_give_identical_results():
    digests = {threads: child(EVERYTHING, NUMBA_NUM_THREADS=threads).stdout for threads in ("1", "2", "4")}
    assert len(digests["1"]) > 60
    assert len(set(digests.values())) == 1


def test_several_python_threads_may_scan_at_once():
    seeds = list(range(12))
    alone = [differentiate(seed=seed) for seed in seeds]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda seed: differentiate(seed=seed), seeds))
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


class Scans(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return differentiate(seed=index)


def test_forked_data_loader_workers_may_scan(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")  # data-loader workers default to one thread, without helpers
    differentiate()  # starts helper threads in the parent, which do not survive the fork
    loader = DataLoader(Scans(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
    for index, found in enumerate(loader):
        wanted = differentiate(seed=index)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_an_unwritable_cache_folder_works_and_says_so():
    done = child(UNWRITABLE + OUTPUT)
    assert "no writable folder" in done.stderr
    assert "compiling the CPU kernel 'scan_forward'" in done.stderr
    assert done.stdout.strip() == digest([selective_scan(**CASE.make(), **CASE.arguments())])


def test_the_first_cold_call_says_what_it_does_and_the_next_process_is_silent(tmp_path):
    cold, warm = (child(OUTPUT, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert "compiling the CPU kernel 'scan_forward'" in cold.stderr
    assert "compiling" not in warm.stderr
    assert cold.stdout == warm.stdout


def test_autocast_leaves_the_scan_in_float32():
    inputs = CASE.make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = selective_scan(**inputs, **CASE.arguments(), return_last_state=True)
    assert y.dtype == state.dtype == torch.float32
    assert torch.equal(y, selective_scan(**inputs, **CASE.arguments()))
