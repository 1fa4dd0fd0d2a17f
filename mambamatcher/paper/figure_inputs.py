"""Models and pairs that figures are made of, and how figures draw and score a pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.records import Pair
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.geometry import unit_to_pixels
from mambamatcher.model.transfer import transfer_points
from mambamatcher.paper import requirements
from mambamatcher.paper.charts import CORRECT, QUERY, show_points
from mambamatcher.paper.opened_pair import OpenedPair, evenly_spaced, is_correct, open_pair

ALPHA = 0.10
SHOWN = 4  # pairs per figure


@dataclass(frozen=True, kw_only=True)
class FigureInputs:
    """Models and pairs of a figure.

    Attributes:
        matchers: Models by name.
        pairs: Pairs of a benchmark, taken at equal distances.
        protocol: What numbers of the figure mean.
    """

    matchers: dict[str, Matcher]
    pairs: Sequence[Pair]
    protocol: str

    @property
    def matcher(self) -> Matcher:
        """The first model, for figures about a single one."""
        return next(iter(self.matchers.values()))

    def opened(self, count: int | None = None) -> list[OpenedPair]:
        """Compute the correlation maps of pairs, all or `count` of them, with the first model."""
        return [open_pair(self.matcher, pair) for pair in evenly_spaced(self.pairs, count or len(self.pairs))]


def load_inputs(models: Sequence[str], dataset: str, split: str, root: Path | None, count: int) -> FigureInputs:
    """Read pairs of a benchmark and load models.

    Args:
        models: Folders of saved models. `lite` if empty.
        dataset: Name of the benchmark.
        split: Split of the benchmark.
        root: Folder with the benchmarks.
        count: Number of pairs.

    Raises:
        InputError: If the data is missing. This is checked before any model is loaded.
    """
    requirements.check("the figure", [requirements.data(dataset, split, root)])
    pairs = evenly_spaced(read_pairs(dataset, split, root, check_images=False).pairs, count)
    matchers = {_name(model): Matcher.from_pretrained(model, runtime="torch") for model in models}
    return FigureInputs(
        matchers=matchers or {"lite": Matcher.from_pretrained("lite", runtime="torch")},
        pairs=pairs,
        protocol=f"{dataset} {split}, {len(pairs)} pairs, alpha_bbox {ALPHA:g}, per image",
    )


def _name(model: str) -> str:
    """Name a model after its run: `runs/x/model` is x."""
    path = Path(model)
    return path.parent.name if path.name == "model" else path.name


def show_pair(panels: np.ndarray, opened: OpenedPair, keypoint: int) -> None:
    """Show a keypoint in the source image and its annotation in the target image."""
    one = slice(keypoint, keypoint + 1)
    name = opened.pair.names[keypoint]
    show_points(panels[0], opened.source, opened.pair.points()[0][one], [QUERY], f"source: {name}")
    show_points(panels[1], opened.target, opened.truth[one], [CORRECT], "target, truth")


@torch.no_grad()
def read_out(
    matcher: Matcher, opened: OpenedPair, scores: Float[Tensor, "1 hs ws ht wt"]
) -> Float[np.ndarray, "keypoint 2"]:
    """Transfer the keypoints with the given scores, to target pixels."""
    found = transfer_points(scores, opened.points, matcher.runtime.transfer)[0]
    return unit_to_pixels(found, opened.target.size).double().numpy()


def pck(opened: Sequence[OpenedPair], predict: Callable[[OpenedPair], np.ndarray]) -> float:
    """Return PCK@0.10 per image, in percent."""
    return 100 * float(np.mean([is_correct(pair, predict(pair), ALPHA).mean() for pair in opened]))
