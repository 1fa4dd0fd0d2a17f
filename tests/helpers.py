"""Helpers that tests of several folders share."""

import sys
import time
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from mambamatcher import cli
from mambamatcher.io.images import resize_square, to_bytes
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig


def to_tensor(image: Image.Image, side: int) -> Float[Tensor, "3 side side"]:
    """Resize an image as the matcher does, with values in [0, 1]."""
    return torch.from_numpy(to_bytes(resize_square(image, side))).float() / 255.0


def noise_file(width: int = 60, height: int = 40, file_format: str = "PNG", seed: int = 0, **options: object) -> bytes:
    """Return the content of an image file with random pixels; `options` go to Pillow's `save`."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    encoded = BytesIO()
    Image.fromarray(pixels).save(encoded, file_format, **options)
    return encoded.getvalue()


def run_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Run a command in this process as the shell would: (exit code, output, error output)."""
    monkeypatch.setattr(sys, "argv", ["mambamatcher", *map(str, arguments)])
    try:
        cli.main()
        code = 0
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def build_untrained(config: ModelConfig) -> MambaMatcher:
    """Build a model on the meta device, without allocating or loading weights."""
    with torch.device("meta"):
        return MambaMatcher(config)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition. The limit only ends a test that hangs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was never met"
        time.sleep(0.02)
