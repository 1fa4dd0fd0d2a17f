"""What tables and figures need beyond this package. It is checked before anything is computed."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from mambamatcher.datasets.benchmarks import DATASETS, read_pairs
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError, MambaMatcherError
from mambamatcher.model.mambamatcher import ModelConfig

Requirement = Callable[[], None]  # raises an error that names what is missing


def check(what: str, requirements: Iterable[Requirement]) -> None:
    """Raise one error that names everything that is missing."""
    missing = []
    for requirement in requirements:
        try:
            requirement()
        except MambaMatcherError as error:
            missing.append(str(error).rstrip("."))
    if missing:
        raise InputError(f"{what} cannot be made, because this is missing: {'; '.join(missing)}. Nothing was computed.")


def data(dataset: str, split: str, root: Path | None, *, to_score: bool = False) -> Requirement:
    """Require a split of a benchmark and, to score on it, the boxes that its protocol measures by."""

    def find() -> None:
        try:
            pairs = read_pairs(dataset, split, root, check_images=False).pairs
            if to_score and DATASETS[dataset].reference == "bbox":
                _require_boxes(pairs)
        except InputError as error:
            raise InputError(f"{dataset} {split} ({error}; to get it: {DATASETS[dataset].get})") from error

    return find


def _require_boxes(pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        if pair.target.bbox is None:
            raise InputError(
                f"alpha_bbox needs the box of every target object, and the annotation of the pair {pair.name} has none "
                f"for {pair.target.path}"
            )


def weights(config: ModelConfig) -> Requirement:
    """Require the backbone's published weights."""

    def find() -> None:
        config.backbone.build()

    return find


def gpu() -> None:
    """Require a GPU, for what would take months on a CPU."""
    if not torch.cuda.is_available():
        raise InputError("a GPU that torch can use")


def given(value: object, what: str) -> Requirement:
    """Require an option that only the user can choose."""

    def find() -> None:
        if value is None:
            raise InputError(what)

    return find
