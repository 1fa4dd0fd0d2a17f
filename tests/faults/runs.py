"""One run of `propagate` or `evaluate` after another, in processes that a test can kill.

`python -m tests.faults.runs VERB FOLDER OUT` reads numbers from its input, one a line. For each it begins, or goes on
with, the run in a child process, kills the child when the results file has grown to so many bytes (0: never), and
prints how the child ended. The children are forked before any thread has started, so beginning one costs no imports.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from mambamatcher.apps.propagate import propagate, read_references
from mambamatcher.data.benchmarks import read_pairs  # noqa: F401  imported here, so that no child has to
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.evaluation.run import Request, evaluate
from mambamatcher.matcher import Matcher


def run(verb: str, folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    matcher = Matcher.from_preset("nearest", ["side=96", "backbone.weights=random"])
    if verb == "propagate":
        references = read_references(matcher, [folder / "reference.png"], folder / "points.json")
        propagate(matcher, references, folder / "targets", out)
    else:
        request = Request(dataset="spair", split="test", root=folder, output=out)
        evaluate(MatcherPredictor("small", matcher), request)


def run_and_kill(verb: str, folder: Path, out: Path, limit: int) -> str:
    child = os.fork()
    if child == 0:
        try:
            run(verb, folder, out)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    results = out / ("points.jsonl" if verb == "propagate" else "predictions.jsonl")
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}"
        if limit and results.exists() and results.stat().st_size >= limit:
            os.kill(child, signal.SIGKILL)
            limit = 0
        time.sleep(0.0005)


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_and_kill(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(line)), flush=True)
