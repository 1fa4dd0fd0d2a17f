"""Small pictures and a small matcher shared by the tests of the tools."""

import numpy as np
import pytest
import torch
from PIL import Image

from mambamatcher import MambaMatcher, Matcher, presets


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """Keep small array operations from waiting for busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def matcher() -> Matcher:
    torch.manual_seed(0)
    return Matcher(MambaMatcher(presets.tiny()))


def picture(width: int = 90, height: int = 60, seed: int = 0) -> Image.Image:
    """Large soft blobs: a picture whose places differ from each other."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
