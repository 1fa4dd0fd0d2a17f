"""Does the preset `tiny` learn? PCK@0.10 on unseen synthetic pairs against wall-clock time of `mambamatcher train`.

    python benchmarks/learning.py --seconds 180 --out docs

The time includes start-up, rendering, training and validation. The curve starts with the untrained model.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import matplotlib
import torch
from lightning import Trainer, seed_everything

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.model.config import override
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import PRESETS
from mambamatcher.training.data_module import TrainingData, TrainingPairs
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import VALIDATION_PCK, TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.start import begin

matplotlib.use("Agg")
from matplotlib import pyplot as plt

VALIDATION_PAIRS = 200
# a finer grid than the tests need, the whole random backbone trained, and the loss that learns fastest
RECIPE = (
    "seed=0",
    "model.side=168",
    "model.backbone.trainable_blocks=5",
    "model.transfer.temperature=20",
    "keypoint_weight=0",
    "cross_entropy_weight=1",
    "learning_rate=2e-3",
    "backbone_learning_rate=2e-3",
    "schedule=cosine",
    "averaging=0.98",
    "augment=false",
    "effective_batch=8",
    "batch_size=4",
    "round_steps=150",
    "workers=0",
)


def main() -> None:
    """Train for the given time and write the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--steps", type=int, default=600, help="length of the schedule")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--picture", type=Path, default=Path("docs/pictures/learning.png"))
    arguments = parser.parse_args()
    recipe = (*RECIPE, f"steps={arguments.steps}")
    curve = [(0.0, 0, untrained(recipe)), *trained(recipe, arguments.seconds)]
    rise = curve[-1][2] - curve[0][2]
    print(f"PCK@0.10 rose from {curve[0][2]:.1f} to {curve[-1][2]:.1f}, by {rise:.1f} points, in {curve[-1][0]:.0f} s")
    found = {"circumstances": asdict(circumstances()), "recipe": recipe, "seconds, step, pck": curve, "rise": rise}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "learning.json").write_text(json.dumps(found, indent=2) + "\n")
    draw(curve, arguments.picture)


def untrained(recipe: tuple[str, ...]) -> float:
    """Validate the initial model of the run."""
    chosen = override(Recipe(model=PRESETS["tiny"]()), recipe)
    seed_everything(chosen.seed, verbose=False)
    pairs = TrainingPairs(
        train=read_pairs("synthetic", "trn").pairs, validation=read_pairs("synthetic", "val").pairs[:VALIDATION_PAIRS]
    )
    model = MambaMatcher(chosen.model)
    begin(model, None, pairs.train)
    categories = sorted({pair.category for pair in pairs.validation})
    module = TrainingModule(chosen, model, PCK(VALIDATION_PAIRS, categories))
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    with torch.no_grad():
        return trainer.validate(module, datamodule=TrainingData(chosen, pairs), verbose=False)[0][VALIDATION_PCK]


def trained(recipe: tuple[str, ...], seconds: float) -> list[tuple[float, int, float]]:
    """Run `mambamatcher train` and record the time of each validation, until the time is up."""
    with tempfile.TemporaryDirectory() as folder:
        # one process per core is faster than one process on both; torchrun starts them together
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += ["-m", "mambamatcher", "train", "--preset", "tiny", "--dataset", "synthetic", "--devices", "2"]
        command += ["--accelerator", "cpu", "--validation-pairs", str(VALIDATION_PAIRS), "--out", folder, *recipe]
        start, curve = time.monotonic(), []
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.match(r"step (\d+)/.*PCK@0\.10 ([\d.]+)", line):
                    passed = time.monotonic() - start
                    if passed > seconds:
                        process.terminate()
                        break
                    curve.append((round(passed, 1), int(found[1]), float(found[2])))
                    print(f"{passed:.0f} s: {line.strip()}", flush=True)
        return curve


def draw(curve: list[tuple[float, int, float]], path: Path) -> None:
    """Plot PCK against time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot([point[0] for point in curve], [point[2] for point in curve], marker="o")
    axes.set(xlabel="seconds since the start of the command", ylabel="PCK@0.10, unseen synthetic pairs", ylim=(0, None))
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
