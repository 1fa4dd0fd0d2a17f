import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.onnx_export import encoder_graph
from mambamatcher.model.saved import GRAPH


@pytest.fixture(scope="module")
def matcher():
    torch.manual_seed(0)
    return Matcher(MambaMatcher(presets.tiny()))


@pytest.fixture(scope="module")
def nearest():
    return Matcher.from_preset("nearest")


def picture(width: int = 90, height: int = 60, seed: int = 0) -> Image.Image:
    """Large soft blobs: a picture whose places differ from each other."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


POINTS = [(10.0, 20.0), (45.5, 30.0), (90.0, 60.0), (0.0, 0.0)]


@pytest.fixture
def counted(matcher, monkeypatch):
    """A matcher of its own on the same model, and the number of images encoded so far."""
    seen = []
    encode = MambaMatcher.encode
    monkeypatch.setattr(MambaMatcher, "encode", lambda model, images: seen.extend(images) or encode(model, images))
    return Matcher(matcher.model), seen


@pytest.fixture(scope="package")
def exported(tmp_path_factory):
    """A saved model with a linear head and its graph."""
    folder = tmp_path_factory.mktemp("tiny")
    model = MambaMatcher(override(presets.tiny(), ["correlation=linear"])).eval()
    save_pretrained(model, folder)
    (folder / GRAPH).write_bytes(encoder_graph(model))
    return folder


def pixels(side: int = 84) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, side, side), dtype=np.uint8)


def changed(model: Path, folder: Path, change: Callable[[Path], object]) -> Path:
    """Copy a saved model and change the copy."""
    shutil.copytree(model, folder)
    change(folder)
    return folder
