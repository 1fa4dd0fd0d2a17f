"""Bad input by the thousand: `python -m tests.fuzz.run --cases 5000 --seed 0`.

Each case must end in a right result or in an error of our own, within a limit of time and of memory. A case depends on
its seed and number alone; `--first NUMBER --cases 1` runs that one again. The counts are printed as Markdown.
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
from time import process_time

import numpy as np

from mambamatcher.errors import MambaMatcherError
from tests.fuzz import checkpoints, pictures, runs, texts
from tests.fuzz.damage import pick

SECONDS = 30.0
OUTCOMES = ("read", "refused", "fault")
BYTES = 2 << 30  # beyond what the process holds before the first case
MAKERS = (
    *4 * (pictures.run,),
    *2 * (texts.points,),
    *2 * (texts.annotations,),
    texts.configuration,
    texts.calibration,
    *2 * (checkpoints.run,),
    *2 * (runs.run,),
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
        if ran_out_of_memory(error):
            return kind, "fault", f"beyond the limit of memory: {said}"
        return kind, "refused", said
    except (Exception, TooSlow):
        return kind, "fault", traceback.format_exc(limit=-12)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return kind, "read", ""


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, is of memory: a size that is too large is to be refused before that."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


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
    parser.add_argument("--out", type=Path, help="write the counts to this file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    checkpoints.saved()  # what every process makes once is not the cases' memory
    runs.read_table()
    limit_memory()
    counts: Counter[tuple[str, str]] = Counter()
    slowest = (0.0, 0)
    for number in range(arguments.first, arguments.first + arguments.cases):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            begun = process_time()
            kind, outcome, detail = run_case(arguments.seed, number, Path(folder))
            slowest = max(slowest, (process_time() - begun, number))
        counts[kind, outcome] += 1
        if outcome == "fault" or arguments.cases == 1:
            print(f"case {number}, {kind}: {outcome}\n{detail}", flush=True)
    text = report(counts, slowest, f"--cases {arguments.cases} --seed {arguments.seed} --first {arguments.first}")
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")
    return 1 if any(outcome == "fault" for _, outcome in counts) else 0


def report(counts: Counter[tuple[str, str]], slowest: tuple[float, int], options: str) -> str:
    """Return the counts of each kind and of all as Markdown."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lines = [
        "# Bad input by the thousand",
        "",
        f"`python -m tests.fuzz.run {options}`",
        "",
        f"The slowest case, number {slowest[1]}, took {slowest[0]:.2f} s of processor time (allowed: {SECONDS:g} s).",
        f"The process held at most {peak:.2f} GB (allowed: {BYTES / 1e9:.1f} GB more than before the first case).",
        "",
        "| kind | read, and right | refused by our own error | anything else |",
        "|---|---:|---:|---:|",
    ]
    totals: Counter[str] = Counter()
    for kind in sorted({kind for kind, _ in counts}):
        lines.append(f"| {kind} | " + " | ".join(str(counts[kind, outcome]) for outcome in OUTCOMES) + " |")
        totals.update({outcome: counts[kind, outcome] for outcome in OUTCOMES})
    lines.append("| all | " + " | ".join(str(totals[outcome]) for outcome in OUTCOMES) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
