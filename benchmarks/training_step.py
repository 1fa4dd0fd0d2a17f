"""CPU seconds per image of a training step, beside those of the bare network's forward and backward pass.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py --recipe vit-s --root data --out FILE

The bare network is the least a step can cost; the rest is decoding, augmentation, head, loss and optimiser.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import collate_groups
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.data_module import TrainingData, TrainingPairs
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import TrainingModule
from mambamatcher.training.recipes import RECIPES

WARM_UP, STEPS = 2, 6


def seconds_per_image(step: Callable[[int], int]) -> float:
    """Return the CPU seconds that a step takes per image, averaged after a warm-up."""
    for index in range(WARM_UP):
        step(index)
    started, images = time.process_time(), 0
    for index in range(WARM_UP, WARM_UP + STEPS):
        images += step(index)
    return (time.process_time() - started) / images


def measure_recipe(name: str, root: Path) -> dict[str, float | int | str]:
    """Measure one recipe with one process."""
    named = RECIPES[name]()
    recipe = replace(named.recipe, effective_batch=1, batch_size=1)
    pairs = read_pairs(named.dataset, named.split, root, check_images=False).pairs
    data = TrainingData(recipe, TrainingPairs(train=pairs, validation=pairs[:1]))
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, [pairs[0].category]))
    module.log = lambda *arguments, **options: None  # there is no trainer
    module.train()
    configured = module.configure_optimizers()
    optimiser = configured["optimizer"] if isinstance(configured, dict) else configured

    def whole(index: int) -> int:
        batch = collate_groups([data.training[index]])
        module.training_step(batch, 0).backward()
        optimiser.step()
        optimiser.zero_grad()
        return len(batch.images)

    def bare(index: int) -> int:
        side = (recipe.sides or (recipe.model.side,))[0]
        levels = module.model.backbone(torch.rand(recipe.group_images, 3, side, side))
        levels.square().mean().backward()
        return len(levels)

    ours, least = seconds_per_image(whole), seconds_per_image(bare)
    return {
        "recipe": name,
        "side": (recipe.sides or (recipe.model.side,))[0],
        "images_per_step": recipe.group_images,
        "cpu_seconds_per_image": ours,
        "bare_network_cpu_seconds_per_image": least,
        "ratio": ours / least,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", action="append", choices=list(RECIPES), help="repeat for more; default vit-s")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder with the benchmarks")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    rows = [measure_recipe(name, arguments.root) for name in arguments.recipe or ["vit-s"]]
    for row in rows:
        print(
            f"{row['recipe']} at {row['side']} px: {row['cpu_seconds_per_image']:.3f} CPU seconds per image, "
            f"{row['ratio']:.2f} times the bare network"
        )
    if arguments.out is not None:
        content = {"rows": rows, "circumstances": asdict(circumstances())}
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
