"""Seconds that the evaluator takes for as many pairs as the SPair-71k test set has, under every protocol.

python benchmarks/scoring.py --out benchmarks/results/scoring.json
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from mambamatcher.benchmark.measurement import circumstances, measure
from mambamatcher.evaluation.score import score
from mambamatcher.evaluation.table import make_table
from tests.evaluation.test_score import synthetic_records

PAIRS = 12_234


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    records = synthetic_records(PAIRS)
    found = measure(lambda: score(make_table(records)), 2)
    result = {"pairs": PAIRS, **asdict(found), "circumstances": asdict(circumstances())}
    print(f"{PAIRS} pairs: {found.seconds:.1f} s, {found.cpu_seconds:.1f} CPU seconds")
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
