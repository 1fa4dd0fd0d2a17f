"""The data of a run as Lightning loads it, divided among its processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightning import LightningDataModule
from torch.utils.data import DataLoader

from mambamatcher.datasets.dataset import GroupDataset, PairDataset, collate, collate_groups
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import ConfigError
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.sampler import EpochSampler


@dataclass(frozen=True, kw_only=True)
class TrainingPairs:
    """Training and validation pairs, and the reference size of the validation threshold."""

    train: Sequence[Pair]
    validation: Sequence[Pair]
    reference: str = "bbox"


class TrainingData(LightningDataModule):
    """Loaders of one process; its pairs follow from the seed, the epoch and its rank."""

    def __init__(self, recipe: Recipe, pairs: TrainingPairs) -> None:
        super().__init__()
        self.recipe = recipe
        augmentation = recipe.augmentation if recipe.augment else None
        sides = recipe.sides or recipe.model.side
        self.training: PairDataset | GroupDataset
        if recipe.group_images > 2:
            if not isinstance(pairs.train, list):
                raise ConfigError("rendered pairs share no images, so they cannot be grouped; set group_images=2")
            images = recipe.group_images
            self.training = GroupDataset(pairs.train, sides, augmentation, images=images, seed=recipe.seed)
        else:
            self.training = PairDataset(pairs.train, sides, augmentation, seed=recipe.seed)
        self.validation = PairDataset(pairs.validation, recipe.model.side)

    def train_dataloader(self) -> DataLoader:
        """Load this process's share of each epoch."""
        trainer = self._trainer()
        sampler = EpochSampler(
            len(self.training),
            self.recipe.batch_size,
            self.recipe.round_steps * trainer.accumulate_grad_batches,
            seed=self.recipe.seed,
            rank=trainer.global_rank,
            processes=trainer.world_size,
        )
        return self._loader(self.training, batch_sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        """Load this process's share of the validation pairs; none is repeated to make the shares equal."""
        trainer = self._trainer()
        mine = range(trainer.global_rank, len(self.validation), trainer.world_size)
        return self._loader(self.validation, sampler=mine, batch_size=self.recipe.batch_size)

    def _trainer(self) -> Any:
        assert self.trainer is not None  # Lightning attaches it before it requests loaders
        return self.trainer

    def _loader(self, dataset: PairDataset | GroupDataset, **kwargs: Any) -> DataLoader:
        workers = self.recipe.workers
        stack = collate_groups if isinstance(dataset, GroupDataset) else collate
        return DataLoader(dataset, collate_fn=stack, num_workers=workers, persistent_workers=workers > 0, **kwargs)
