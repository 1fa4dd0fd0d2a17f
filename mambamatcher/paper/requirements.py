"""What a table needs beyond this package, looked for before anything is computed."""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from mambamatcher.datasets.benchmarks import DATASETS, read_pairs
from mambamatcher.errors import InputError, MambaMatcherError
from mambamatcher.model.mambamatcher import ModelConfig

Need = Callable[[], None]


def check(what: str, needs: Iterable[Need]) -> None:
    """Raise one error that names everything that is missing."""
    missing = []
    for need in needs:
        try:
            need()
        except MambaMatcherError as error:
            missing.append(str(error).rstrip("."))
    if missing:
        raise InputError(f"{what} needs what is not here: {'; '.join(missing)}. Nothing was computed.")


def data(dataset: str, split: str, root: Path | None) -> Need:
    """Need a split of a benchmark."""

    def look() -> None:
        try:
            read_pairs(dataset, split, root, check_images=False)
        except InputError as error:
            raise InputError(f"{dataset} {split} ({error}; to get it: {DATASETS[dataset].get})") from error

    return look


def weights(config: ModelConfig) -> Need:
    """Need the backbone's published weights."""

    def look() -> None:
        config.backbone.build()

    return look


def gpu() -> None:
    """Need a GPU, for what would take a processor months."""
    if not torch.cuda.is_available():
        raise InputError("a GPU that torch can use")


def given(value: object, what: str) -> Need:
    """Need something only the user can give."""

    def look() -> None:
        if value is None:
            raise InputError(what)

    return look
