"""Levels of a frozen backbone are cached in a store and read from it."""

import copy
import threading
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from mambamatcher.io.tensor_store import TensorStore
from mambamatcher.model.backbones import EfficientNetLiteConfig, VitConfig

HALF = {"rtol": 1e-3, "atol": 1e-4}  # the store has half precision
TINY = VitConfig(name="dinov2-tiny", layers=(1, 3), weights="random")


def keep(backbone, folder, limit=10**9):
    backbone.keep_levels(TensorStore(folder=folder, disk_bytes=limit))


@pytest.mark.parametrize("config", [TINY, EfficientNetLiteConfig(layers=(9, 15), weights="random", width=8)])
def test_cached_features_equal_computed_ones_and_are_computed_once(config, tmp_path, monkeypatch):
    backbone = config.build().eval()
    side = 4 * backbone.stride
    images = torch.rand(3, 3, side, side)
    expected = backbone(images)
    keep(backbone, tmp_path)
    first = backbone(images)
    assert_close(first, expected, **HALF)
    monkeypatch.setattr(type(backbone), "levels", lambda *_: pytest.fail("was computed again"))
    keep(backbone, tmp_path)  # as another process would
    assert_close(backbone(images), first, rtol=0, atol=0)


def test_other_pixels_other_layers_and_other_weights_have_entries_of_their_own(tmp_path):
    images = torch.rand(1, 3, 56, 56)
    backbones = [TINY.build().eval(), replace(TINY, layers=(1, 2)).build().eval(), TINY.build().eval()]
    for backbone in backbones:
        keep(backbone, tmp_path)
        backbone.raw_levels(images)
    backbones[0].raw_levels(images + 0.01)
    assert len(list(tmp_path.glob("*.safetensors"))) == 4


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_a_broken_entry_is_computed_again(tmp_path, damage):
    backbone = TINY.build().eval()
    images = torch.rand(1, 3, 56, 56)
    keep(backbone, tmp_path)
    good = backbone.raw_levels(images)
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-10] if damage is None else damage)
    for a, b in zip(good, backbone.raw_levels(images), strict=True):
        assert_close(a, b, rtol=0, atol=0)
    assert path.stat().st_size > 1000


def test_the_cache_keeps_within_its_size_dropping_what_was_not_used(tmp_path):
    backbone = TINY.build().eval()
    images = torch.rand(8, 3, 56, 56)
    one = sum(level.numel() * 2 for level in backbone.raw_levels(images[:1]))
    keep(backbone, tmp_path, int(4.5 * one))
    for image in images:
        backbone.raw_levels(image[None])
        held = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
        assert held <= 4.6 * one
    assert len(list(tmp_path.glob("*"))) >= 2


def test_several_writers_of_one_folder_do_not_disturb_each_other(tmp_path):
    backbone = TINY.build().eval()
    images = torch.rand(6, 3, 56, 56)
    one = sum(level.numel() * 2 for level in backbone.raw_levels(images[:1]))
    expected = [backbone.raw_levels(image[None]) for image in images]
    problems = []

    def work():
        own = copy.deepcopy(backbone)
        keep(own, tmp_path, int(3.2 * one))
        for _ in range(5):
            for image, wanted in zip(images, expected, strict=True):
                found = own.raw_levels(image[None])
                problems.extend(1 for a, b in zip(found, wanted, strict=True) if not torch.allclose(a, b, **HALF))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not problems
    assert not list(tmp_path.glob(".*"))


def test_features_that_cannot_be_kept_are_computed_each_time(tmp_path):
    backbone = TINY.build().eval()
    images = torch.rand(2, 3, 56, 56)
    expected = backbone.raw_levels(images)
    keep(backbone, tmp_path / "features")
    (tmp_path / "features").rmdir()
    for _ in range(2):
        for found, wanted in zip(backbone.raw_levels(images), expected, strict=True):
            assert_close(found, wanted, **HALF)
    assert not list(tmp_path.iterdir())
