"""Bad input by the thousand: `python -m tests.fuzz.run --cases 5000 --seed 0`.

Each case must end in a right result or in an error of our own, within a limit of time and of memory. A case depends on
its seed and number alone; `--only NUMBER` runs that one again and shows everything.
"""

import argparse
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from time import perf_counter

import numpy as np

from mambamatcher.errors import MambaMatcherError
from tests.fuzz import checkpoints, pictures, texts
from tests.fuzz.damage import pick

SECONDS = 30.0
BYTES = 2 << 30  # beyond what the process holds before the first case
MAKERS = (
    *4 * (pictures.run,),
    *2 * (texts.points,),
    *2 * (texts.annotations,),
    texts.configuration,
    texts.calibration,
    *2 * (checkpoints.run,),
)


class TooSlow(BaseException):
    """Not an `Exception`, so that nothing under test can take it for its own."""


def run_case(seed: int, number: int, folder: Path) -> tuple[str, str, str]:
    """Return the kind, the outcome and, for a fault, its traceback."""
    rng = np.random.default_rng([seed, number])
    kind, action = pick(rng, MAKERS)(rng, folder)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        action()
    except MambaMatcherError as error:
        said = str(error)
        if not said or "\n" in said:
            return kind, "fault", f"the message is not one sentence: {said[:300]!r}"
        return kind, "refused", said
    except (Exception, TooSlow):
        return kind, "fault", traceback.format_exc(limit=-12)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return kind, "read", ""


def limit_memory() -> None:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, resource.RLIM_INFINITY))


def stop(*_: object) -> None:
    raise TooSlow(f"a case took more than {SECONDS:g} seconds")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", type=int, help="run this case alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    numbers = range(arguments.first, arguments.first + arguments.cases)
    if arguments.only is not None:
        numbers = range(arguments.only, arguments.only + 1)
    checkpoints.saved()  # what every process makes once is not the cases' memory
    limit_memory()
    counts: Counter[tuple[str, str]] = Counter()
    slowest = (0.0, 0)
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            begun = perf_counter()
            kind, outcome, detail = run_case(arguments.seed, number, Path(folder))
            slowest = max(slowest, (perf_counter() - begun, number))
        counts[kind, outcome] += 1
        if outcome == "fault" or arguments.only is not None:
            print(f"case {number}, {kind}: {outcome}\n{detail}", flush=True)
    report(counts, slowest)
    return 1 if any(outcome == "fault" for _, outcome in counts) else 0


def report(counts: Counter[tuple[str, str]], slowest: tuple[float, int]) -> None:
    print(f"{'kind':34}{'read':>8}{'refused':>9}{'fault':>7}")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:34}{counts[kind, 'read']:8}{counts[kind, 'refused']:9}{counts[kind, 'fault']:7}")
    totals = {
        word: sum(count for (_, outcome), count in counts.items() if outcome == word)
        for word in ("read", "refused", "fault")
    }
    print(f"{'all':34}{totals['read']:8}{totals['refused']:9}{totals['fault']:7}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"slowest: case {slowest[1]}, {slowest[0]:.2f} s; peak memory {peak:.2f} GB")


if __name__ == "__main__":
    sys.exit(main())
