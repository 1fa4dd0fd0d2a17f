"""A small benchmark of five pairs, and predictors with known mistakes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.evaluation.evaluate import Request
from tests.datasets import releases


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """Keep small array operations from waiting for busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Offset:
    """Finds every point of the small benchmark, moved by a fixed offset."""

    def __init__(self, offset=(0.0, 0.0), name="offset"):
        self.name = name
        self.configuration = {"offset": list(offset)}
        self.offset = offset
        self.calls = 0

    def predict_points(self, source, target, points):
        self.calls += 1
        # the benchmark's target points are its source points moved by (2, 2)
        return points + 2 + np.array(self.offset), np.full(len(points), 0.5)


class Stopping(Offset):
    """Is killed when it has predicted so many pairs."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def predict_points(self, source, target, points):
        if self.calls == self.after:
            raise KeyboardInterrupt
        return super().predict_points(source, target, points)


@pytest.fixture
def root(tmp_path) -> Path:
    """Write the benchmark: three pairs of cats and two of dogs, graded."""
    annotations = []
    for number in range(5):
        category = "cat" if number < 3 else "dog"
        annotations.append(
            releases.spair_annotation(
                f"{number:06d}-one-two:{category}",
                category=category,
                viewpoint_variation=number % 3,
                kps_ids=["L_Eye", "R_Eye", "Nose"],
            )
        )
    releases.write_spair(tmp_path, annotations)
    return tmp_path


@pytest.fixture
def pairs(root):
    return read_pairs("spair", "test", root).pairs


@pytest.fixture
def request_(root, tmp_path):
    return Request(dataset="spair", split="test", root=root, output=tmp_path / "results")
