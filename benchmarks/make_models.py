"""Make the models of this repository from their recipes: train, export, calibrate, evaluate.

    python benchmarks/make_models.py lite --root data

`default`, `lite` and `pf-pascal` make the models in mambamatcher/assets. `control` compares the scan with a sum
of levels. `unseen` measures keypoint names never trained on. An interrupted run resumes. `--dry-run` prints
the commands.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

from mambamatcher.training.recipes import AVERAGED, CHAINS, RUNS

ASSETS = Path("mambamatcher/assets")
READOUT = ("mirror=true", "transfer.blend=scores", "transfer.radius=0.08")  # chosen on the selection split
Command = list[str]


def default(root: Path) -> list[Command]:
    """Fine-tune the ViT, decay its rate, store it in half precision, calibrate, and evaluate."""
    model, run = str(ASSETS / "default"), f"{RUNS}/default"
    return [
        train("default", root, devices=2),
        mambamatcher("export", "--model", f"{run}/model", "--folder", model, "--half", "--overwrite"),
        *calibrate(model, root, f"{run}/calibration"),
        evaluate(model, root, "voc", "selection", f"{run}/selection", "--first", "300"),
        evaluate(model, root, "spair", "val", f"{run}/spair-val"),
        evaluate(model, root, "pf-pascal", "val", f"{run}/pf-pascal-val"),
        [sys.executable, "-m", "tests.test_shipped", "default"],  # stores the predictions that the test expects
    ]


def lite(root: Path) -> list[Command]:
    """Train twice, average, store in half precision, calibrate, and evaluate."""
    model = str(ASSETS / "lite")
    both = ["--model", f"{RUNS}/lite/model", "--average", f"{RUNS}/lite-continued/model"]
    return [
        train("lite", root, devices=2),
        train("lite-continued", root, devices=2),
        mambamatcher("export", *both, "--folder", AVERAGED, "--overwrite", "side=384"),
        mambamatcher("export", "--model", AVERAGED, "--folder", model, "--half", "--overwrite", *READOUT),
        *calibrate(model, root, f"{RUNS}/lite-calibration"),
        evaluate(model, root, "spair", "val", f"{AVERAGED}/spair-val"),
        evaluate(model, root, "pf-pascal", "val", f"{AVERAGED}/pf-pascal-val"),
        [sys.executable, "-m", "tests.test_shipped", "lite"],
    ]


def pf_pascal(root: Path) -> list[Command]:
    """Train twice and evaluate, with and without the pairs that share an image with training."""
    model, run = str(ASSETS / "lite-pf-pascal"), f"{RUNS}/pf-pascal-continued"
    return [
        train("pf-pascal", root),
        train("pf-pascal-continued", root),
        mambamatcher(
            "export", "--model", f"{run}/model", "--folder", model, "--half", "--overwrite", "side=384", *READOUT
        ),
        evaluate(model, root, "pf-pascal", "val", f"{run}/val"),
        [sys.executable, "benchmarks/overlap.py", f"{run}/val", str(root)],
    ]


def control(root: Path) -> list[Command]:
    """Train with and without the scan from the same model, with two seeds, and compare."""
    commands = []
    for seed in (0, 1):
        reports = []
        for recipe in ("control-scan", "control-linear"):
            run = f"{recipe}-{seed}"
            selection = f"{RUNS}/{run}/selection"
            commands.append(train(recipe, root, f"seed={seed}", run=run))
            commands.append(evaluate(f"{RUNS}/{run}/model", root, "voc", "selection", selection, "--first", "400"))
            reports.append(f"{selection}/report.json")
        commands.append(mambamatcher("compare", *reports))
    return commands


def unseen(root: Path) -> list[Command]:
    """Train without some keypoint names, and compare with both untrained backbones on exactly those."""
    run, few = f"{RUNS}/unseen", ("--first", "300")
    commands = [
        train("unseen", root, devices=2),
        mambamatcher(
            "export", "--model", f"{run}/model", "--folder", f"{run}/read", "--overwrite", *CHAINS["default"].readout
        ),
        evaluate(f"{run}/read", root, "voc", "selection-unseen", f"{run}/selection", *few),
    ]
    for untrained in ("nearest", "nearest-vit-s-focus"):
        commands += [
            evaluate(untrained, root, "voc", "selection-unseen", f"{run}/{untrained}", *few),
            mambamatcher("compare", f"{run}/selection/report.json", f"{run}/{untrained}/report.json"),
        ]
    return commands


PIPELINES = {"default": default, "lite": lite, "pf-pascal": pf_pascal, "control": control, "unseen": unseen}


def train(recipe: str, root: Path, *changes: str, run: str | None = None, devices: int = 1) -> Command:
    """Train a recipe in the folder of its name, or resume there."""
    folder = Path(RUNS, run or recipe)
    resume = ["--resume"] if next(folder.glob("**/recipe.json"), None) else []
    where = ["--root", str(root), "--out", str(folder), "--accelerator", "cpu", "--devices", str(devices)]
    return mambamatcher("train", "--recipe", recipe, *where, *resume, *changes)


def calibrate(model: str, root: Path, out: str) -> list[Command]:
    """Fit the confidence on pairs of photos that were not trained on."""
    data = ("--dataset", "voc", "--split", "selection", "--root", str(root), "--limit", "300")
    return [
        mambamatcher("calibrate", model, *data, "--out", out, "--overwrite"),
        ["cp", f"{out}/calibration.json", model],
    ]


def evaluate(model: str, root: Path, dataset: str, split: str, out: str, *options: str) -> Command:
    return mambamatcher(
        "evaluate", model, "--root", str(root), "--dataset", dataset, "--split", split, "--out", out, *options
    )


def mambamatcher(*arguments: str) -> Command:
    return [sys.executable, "-m", "mambamatcher", *arguments]


def run(command: Command) -> None:
    """Run a command and stop if it fails."""
    # two training processes with one thread each are faster than one process with two threads
    threads = {"OMP_NUM_THREADS": "1"} if "train" in command else {}
    subprocess.run(command, env={**os.environ, **threads}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(PIPELINES))
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder with the benchmarks")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run none")
    arguments = parser.parse_args()
    for command in PIPELINES[arguments.model](arguments.root):
        print(shlex.join(command), flush=True)
        if not arguments.dry_run:
            run(command)


if __name__ == "__main__":
    main()
