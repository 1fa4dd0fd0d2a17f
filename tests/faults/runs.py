"""Runs of `propagate`, `evaluate` and `features`, here or on Ray, in processes that a test can kill.

`python -m tests.faults.runs FOLDER` reads lines `VERB LIMIT FILES OUT`. For each it begins, or continues, the run in a
child process, kills the child when these files have grown to so many bytes (0: never), and prints how the child ended.
The children are forked before any thread has started, so beginning one costs no imports.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

from mambamatcher.datasets.benchmarks import read_pairs  # noqa: F401  imported here, so that no child has to
from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.jobs.engines import LOCAL
from mambamatcher.jobs.ray_engine import RayEngine
from mambamatcher.jobs.source import read_source
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools import propagate as tool
from mambamatcher.tools.features import extract_features

with suppress(ImportError):
    import pyarrow.parquet  # noqa: F401  imported here, so that no child has to

SEEDS = range(int(os.environ.get("FAULT_SEEDS", "1")))  # each kills at other points
EVERYTHING = "**/*"
RESULTS = {
    "propagate": "points.jsonl",
    "propagate-ray": "points.jsonl",
    "propagate-shards": "parts/part-*.jsonl",
    "evaluate": "predictions.jsonl",
    "features": "parts/part-*.parquet",
}


def run(verb: str, folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    matcher = Matcher.from_preset("nearest", ["side=96", "backbone.weights=random"])
    if verb == "evaluate":
        evaluate(MatcherPredictor("small", matcher), Request(dataset="spair", split="test", root=folder, output=out))
        return
    source = read_source(folder / "targets")
    if verb == "features":
        extract_features(matcher, source, out)
        return
    if verb == "propagate-shards":
        tool.GATHERED = 1
    references = tool.read_references(matcher, [folder / "reference.png"], folder / "points.json")
    tool.propagate(matcher, references, source, out, RayEngine(workers=1) if verb == "propagate-ray" else LOCAL)


def held_bytes(out: Path, files: str) -> int:
    sizes = 0
    for path in out.glob(files):
        with suppress(FileNotFoundError):  # a temporary file that is now in place
            sizes += path.stat().st_size if path.is_file() else 0
    return sizes


def run_and_kill(verb: str, folder: Path, out: Path, files: str, limit: int) -> str:
    child = os.fork()
    if child == 0:
        try:
            run(verb, folder, out)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}"
        if limit and held_bytes(out, files) >= limit:
            os.kill(child, signal.SIGKILL)
            limit = 0
        time.sleep(0.0005)


if __name__ == "__main__":
    for line in sys.stdin:
        verb, limit, files, out = line.rstrip("\n").split(" ", 3)
        print(run_and_kill(verb, Path(sys.argv[1]), Path(out), files, int(limit)), flush=True)
