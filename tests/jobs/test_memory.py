import subprocess
import sys

import pytest

# prints the page faults of repeatedly allocating and filling 40 MB, before and after keep_freed_memory()
SCRIPT = """
import resource
import torch
from mambamatcher.jobs.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(10 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_a_process_that_keeps_its_memory_is_not_given_it_again_page_by_page():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before / 50
