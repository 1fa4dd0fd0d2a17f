"""The synthetic set as a benchmark: pairs rendered on request, with nothing on disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from PIL import Image

from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage, Pair

if TYPE_CHECKING:
    from mambamatcher.datasets.synthetic import SyntheticPairs, SyntheticView

PAIRS = {"trn": 10_000, "val": 500, "test": 500}
SIZE = (256, 256)


class RenderedPairs(Sequence[Pair]):
    """Synthetic pairs as records that hold their images; a pair is rendered each time it is indexed."""

    def __init__(self, pairs: "SyntheticPairs") -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        pair = self.pairs[index]
        name = f"synthetic-{self.pairs.seed}-{index:06d}"
        views = pair.source, pair.target
        source, target = (
            _image(view, f"{name}-{side}") for view, side in zip(views, ("source", "target"), strict=True)
        )
        variation = {
            "truncation": views[0].truncated + 2 * views[1].truncated,
            "occlusion": views[0].occluded + 2 * views[1].occluded,
            "mirror": int(pair.mirrored),
        }
        return Pair(f"{name}:{pair.category}", source, target, pair.category, variation)


def read_synthetic(root: Path, split: str, faults: Faults) -> RenderedPairs:
    """Return the pairs of a split. Each split has its own seed; `root` is not used."""
    from mambamatcher.datasets.synthetic import SyntheticPairs

    return RenderedPairs(SyntheticPairs(PAIRS[split], seed=list(PAIRS).index(split), size=SIZE))


def _image(view: "SyntheticView", name: str) -> AnnotatedImage:
    places = zip(view.keypoint_names, view.keypoints.tolist(), view.visible.tolist(), strict=True)
    keypoints = {name: (x, y) for name, (x, y), visible in places if visible}
    rendered = Image.fromarray(view.image)
    return AnnotatedImage(Path(f"{name}.png"), view.size, view.category, keypoints, view.bbox, rendered=rendered)
