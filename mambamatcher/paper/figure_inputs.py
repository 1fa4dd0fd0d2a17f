"""What figures are made of: models and pairs, and how a pair is shown and measured in them."""

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
from mambamatcher.paper.charts import ASKED, RIGHT, show_points
from mambamatcher.paper.opened_pair import Case, is_right, open_case, spread

ALPHA = 0.10
SHOWN = 4  # pairs in a picture


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a figure is made of: models by name, and pairs of a benchmark taken at equal distances."""

    matchers: dict[str, Matcher]
    pairs: Sequence[Pair]
    where: str

    @property
    def matcher(self) -> Matcher:
        """The first model, for figures of a single one."""
        return next(iter(self.matchers.values()))

    def cases(self, count: int | None = None) -> list[Case]:
        """Open pairs with the first model."""
        return [open_case(self.matcher, pair) for pair in spread(self.pairs, count or len(self.pairs))]


def make_subject(models: Sequence[str], dataset: str, split: str, root: Path | None, count: int) -> Subject:
    """Find the data before any model is loaded."""
    requirements.check("the figure", [requirements.data(dataset, split, root)])
    pairs = spread(read_pairs(dataset, split, root, check_images=False).pairs, count)
    matchers = {_name(model): Matcher.from_pretrained(model) for model in models}
    return Subject(
        matchers=matchers or {"embedded model": Matcher.from_pretrained()},
        pairs=pairs,
        where=f"{dataset} {split}, {len(pairs)} pairs, alpha_bbox {ALPHA:g}, per image",
    )


def _name(model: str) -> str:
    """Name a model after its run: `runs/x/model` is x."""
    path = Path(model)
    return path.parent.name if path.name == "model" else path.name


def show_pair(panels: np.ndarray, case: Case, keypoint: int) -> None:
    """Show a keypoint in the source and where it truly is in the target."""
    part = slice(keypoint, keypoint + 1)
    show_points(panels[0], case.source, case.pair.points()[0][part], [ASKED], f"source: {case.pair.names[keypoint]}")
    show_points(panels[1], case.target, case.truth[part], [RIGHT], "target, truth")


@torch.no_grad()
def read_out(matcher: Matcher, case: Case, scores: Float[Tensor, "1 hs ws ht wt"]) -> Float[np.ndarray, "keypoint 2"]:
    """Carry the keypoints by some scores, to target pixels."""
    found = transfer_points(scores, case.points, matcher.config.transfer)[0]
    return unit_to_pixels(found, case.target.size).double().numpy()


def pck(cases: Sequence[Case], predict: Callable[[Case], np.ndarray]) -> float:
    """Return PCK@0.10 per image, in percent."""
    return 100 * float(np.mean([is_right(case, predict(case), ALPHA).mean() for case in cases]))
