"""Datasets and batches for training: pairs of square images with their shared keypoints in the unit frame."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import permutations
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from mambamatcher.datasets.image_cache import CACHE_BYTES, ImageCache, read_image
from mambamatcher.datasets.records import AnnotatedImage, Pair, shared_names
from mambamatcher.datasets.sampling import SHARED, by_category
from mambamatcher.datasets.transforms import Augmentation, View
from mambamatcher.model.geometry import pixels_to_unit

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class PairSample:
    """One pair as tensors.

    Images are in [0, 1], points in the unit frame, sizes and box in original pixels. `unmatched_points` are the
    keypoints of the source that the target does not show. If the target has no box, `target_box` is zero and
    `box_present` false.
    """

    index: int
    category: str
    source_image: Float[Tensor, "3 side side"]
    target_image: Float[Tensor, "3 side side"]
    source_points: Float[Tensor, "keypoint 2"]
    target_points: Float[Tensor, "keypoint 2"]
    unmatched_points: Float[Tensor, "unmatched 2"]
    source_size: Int[Tensor, "2"]
    target_size: Int[Tensor, "2"]
    target_box: Float[Tensor, "4"]
    box_present: bool


@dataclass(frozen=True)
class PairBatch:
    """A batch of pairs.

    Keypoints are padded to the longest list, and `present` is false for padding; `unmatched` likewise for the source's
    keypoints that the target does not show. An image that several pairs share is
    stored once: `source` and `target` are the indices of each pair's images in `images`.
    """

    index: Int[Tensor, " batch"]
    category: list[str]
    images: Float[Tensor, "image 3 side side"]
    source: Int[Tensor, " batch"]
    target: Int[Tensor, " batch"]
    source_points: Float[Tensor, "batch keypoint 2"]
    target_points: Float[Tensor, "batch keypoint 2"]
    present: Bool[Tensor, "batch keypoint"]
    unmatched_points: Float[Tensor, "batch unmatched 2"]
    unmatched: Bool[Tensor, "batch unmatched"]
    source_size: Int[Tensor, "batch 2"]
    target_size: Int[Tensor, "batch 2"]
    target_box: Float[Tensor, "batch 4"]
    box_present: Bool[Tensor, " batch"]

    def to(self, device: torch.device | str) -> "PairBatch":
        """Move every tensor to a device."""
        moved: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in moved.items():
            moved[name] = value.to(device) if isinstance(value, Tensor) else value
        return PairBatch(**moved)


class _SeededDataset(Dataset[Sample]):
    """Pairs of any benchmark. Augmentation depends only on seed, epoch and index, not on the worker.

    Args:
        pairs: The pairs.
        sides: Input side in pixels. If there are several, epochs cycle through them.
        augmentation: Augmentation, if any.
        seed: Seed of the augmentation.
        cache_bytes: Memory for decoded images.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        sides: int | Sequence[int],
        augmentation: Augmentation | None = None,
        *,
        seed: int = 0,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.pairs = pairs
        self.sides = (sides,) if isinstance(sides, int) else tuple(sides)
        self.augmentation = augmentation
        self.seed = seed
        # in shared memory, so that persistent workers see the new epoch
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._photos = ImageCache(read_image, cache_bytes)
        self._squares = [ImageCache(partial(_square, side=side), cache_bytes // len(self.sides)) for side in self.sides]

    def set_epoch(self, epoch: int) -> None:
        """Use the augmentations and the side of this epoch from now on."""
        self._epoch.fill_(epoch)

    @property
    def _side_index(self) -> int:
        return int(self._epoch) % len(self.sides)

    def __len__(self) -> int:
        return len(self.pairs)

    def _generator(self, index: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, int(self._epoch), index])

    def _plain(self, image: AnnotatedImage) -> Float[Tensor, "3 side side"]:
        return _floats(self._squares[self._side_index][image])

    def _view(self, image: AnnotatedImage) -> View:
        return View(self._photos[image], image)

    def _changed(self, view: View) -> Float[Tensor, "3 side side"]:
        return _floats(to_square(view.image, self.sides[self._side_index]))

    def _sample(self, index: int, pair: Pair, source: Tensor, target: Tensor) -> PairSample:
        points = pair.points()
        unmatched = [point for name, point in pair.source.keypoints.items() if name not in pair.target.keypoints]
        return PairSample(
            index=index,
            category=pair.category,
            source_image=source,
            target_image=target,
            source_points=pixels_to_unit(torch.from_numpy(points[0]).float(), pair.source.size),
            target_points=pixels_to_unit(torch.from_numpy(points[1]).float(), pair.target.size),
            unmatched_points=pixels_to_unit(torch.tensor(unmatched).reshape(-1, 2), pair.source.size).clamp(-1, 1),
            source_size=torch.tensor(pair.source.size),
            target_size=torch.tensor(pair.target.size),
            target_box=_box(pair.target),
            box_present=pair.target.bbox is not None,
        )


class PairDataset(_SeededDataset[PairSample]):
    """The given pairs, one by one."""

    def __getitem__(self, index: int) -> PairSample:
        pair = self.pairs[index]
        if self.augmentation is None:
            return self._sample(index, pair, self._plain(pair.source), self._plain(pair.target))
        views = self.augmentation(self._view(pair.source), self._view(pair.target), self._generator(index))
        changed = Pair(pair.name, views[0].annotated, views[1].annotated, pair.category)
        return self._sample(index, changed, self._changed(views[0]), self._changed(views[1]))


class GroupDataset(_SeededDataset[list[PairSample]]):
    """Groups: each given pair with other images of its category, as all ordered pairs among them.

    The backbone sees n images and the model learns from up to n (n - 1) pairs. Each image is augmented once for all its
    pairs.

    Args:
        pairs: The first two images of each group.
        sides: Input side in pixels. If there are several, epochs cycle through them.
        augmentation: Augmentation, if any.
        images: Images per group.
        seed: Seed of the augmentation and of the other images.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        sides: int | Sequence[int],
        augmentation: Augmentation | None,
        *,
        images: int,
        seed: int,
    ) -> None:
        super().__init__(pairs, sides, augmentation, seed=seed)
        self.images = images
        known = {(image.path, image.category): image for pair in pairs for image in (pair.source, pair.target)}
        self._by_category = by_category(list(known.values()))

    def __getitem__(self, index: int) -> list[PairSample]:
        first, generator = self.pairs[index], self._generator(index)
        taken = {(each.path, each.flip) for each in (first.source, first.target)}  # an image may hold several objects
        others = [each for each in self._by_category[first.category] if (each.path, each.flip) not in taken]
        chosen = generator.permutation(len(others))[: self.images - 2]
        members = [first.source, first.target, *(others[number] for number in chosen)]
        if self.augmentation is None:
            images = [self._plain(member) for member in members]
        else:
            views = self.augmentation.group([self._view(member) for member in members], generator)
            members = [view.annotated for view in views]
            images = [self._changed(view) for view in views]
        enough = min(SHARED, len(first.names))
        return [
            self._sample(index, Pair(first.name, source, target, first.category), images[i], images[j])
            for (i, source), (j, target) in permutations(enumerate(members), 2)
            if len(shared_names(source, target)) >= enough
        ]


def collate(samples: Sequence[PairSample]) -> PairBatch:
    """Stack samples into a batch. Padding is zero and marked as absent; a tensor that samples share is stacked once."""
    images = {id(image): image for sample in samples for image in (sample.source_image, sample.target_image)}
    position = {key: number for number, key in enumerate(images)}
    return PairBatch(
        index=torch.tensor([sample.index for sample in samples]),
        category=[sample.category for sample in samples],
        images=torch.stack(list(images.values())),
        source=torch.tensor([position[id(sample.source_image)] for sample in samples]),
        target=torch.tensor([position[id(sample.target_image)] for sample in samples]),
        source_points=_padded([sample.source_points for sample in samples]),
        target_points=_padded([sample.target_points for sample in samples]),
        present=_present([sample.source_points for sample in samples]),
        unmatched_points=_padded([sample.unmatched_points for sample in samples]),
        unmatched=_present([sample.unmatched_points for sample in samples]),
        source_size=torch.stack([sample.source_size for sample in samples]),
        target_size=torch.stack([sample.target_size for sample in samples]),
        target_box=torch.stack([sample.target_box for sample in samples]),
        box_present=torch.tensor([sample.box_present for sample in samples]),
    )


def collate_groups(groups: Sequence[list[PairSample]]) -> PairBatch:
    """Stack the pairs of several groups into a batch."""
    return collate([sample for group in groups for sample in group])


def to_square(image: Image.Image, side: int) -> UInt8[Tensor, "3 side side"]:
    """Resize to `side` by `side`, without keeping the aspect ratio."""
    # the same resampling as for matching, but kept as bytes: a quarter of the memory
    resized = image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1).contiguous()


def _floats(square: UInt8[Tensor, "3 side side"]) -> Float[Tensor, "3 side side"]:
    return square.float().div_(255.0)


def _square(image: AnnotatedImage, side: int) -> UInt8[Tensor, "3 side side"]:
    return to_square(read_image(image), side)


def _present(points: list[Tensor]) -> Bool[Tensor, "batch keypoint"]:
    counts = torch.tensor([len(each) for each in points])
    return torch.arange(int(counts.max())) < counts[:, None]


def _padded(points: list[Tensor]) -> Float[Tensor, "batch keypoint 2"]:
    return torch.nn.utils.rnn.pad_sequence(points, batch_first=True)


def _box(image: AnnotatedImage) -> Float[Tensor, "4"]:
    return torch.tensor(image.bbox or (0.0, 0.0, 0.0, 0.0), dtype=torch.float32)
