"""Which pairs a step sees: a function of the seed and the step alone, so that any step can be repeated."""

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


class EpochSampler(Sampler[list[int]]):
    """The batches of one process for one epoch, which is a fixed number of steps.

    Pairs are drawn without repetition until all have been seen, then in another order. Within a step, processes take
    turns, so that together they see the same pairs whatever their number.
    """

    def __init__(self, pairs: int, batch_size: int, batches: int, *, seed: int, rank: int, processes: int) -> None:
        self.pairs = pairs
        self.batch_size = batch_size
        self.batches = batches
        self.seed = seed
        self.rank = rank
        self.processes = processes
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        together = self.batch_size * self.processes
        for batch in range(self.epoch * self.batches, (self.epoch + 1) * self.batches):
            first = batch * together
            yield [self._pair(first + self.rank + self.processes * i) for i in range(self.batch_size)]

    def _pair(self, draw: int) -> int:
        passed, place = divmod(draw, self.pairs)
        return int(self._permutation(passed)[place])

    def _permutation(self, passed: int) -> np.ndarray:
        if getattr(self, "_passed", None) != passed:
            self._passed = passed
            self._order = np.random.default_rng([self.seed, passed]).permutation(self.pairs)
        return self._order
