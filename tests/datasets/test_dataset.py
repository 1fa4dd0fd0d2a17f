"""Datasets: the unit frame, masks, and the same sample whichever worker makes it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import GroupDataset, PairDataset, collate, collate_groups, to_square
from mambamatcher.datasets.image_cache import ImageCache, read_image
from mambamatcher.datasets.transforms import Augmentation
from mambamatcher.evaluation.pck import Targets
from mambamatcher.io.images import load_image
from mambamatcher.model.geometry import unit_to_pixels
from mambamatcher.training.metric import PCK
from tests.datasets import releases
from tests.helpers import to_tensor


@pytest.fixture
def pairs(tmp_path):
    two = releases.spair_annotation("000002-one-two:cat", src_kps=[[1, 2]], trg_kps=[[3, 4]], kps_ids=["30"])
    releases.write_spair(tmp_path, [releases.spair_annotation(), two])
    return read_pairs("spair", "test", tmp_path).pairs


def test_points_go_to_the_unit_frame_and_back_to_original_pixels(pairs):
    sample = PairDataset(pairs, sides=16)[0]
    assert sample.source_image.shape == (3, 16, 16)
    assert 0 <= sample.source_image.min() < sample.source_image.max() <= 1
    back = unit_to_pixels(sample.target_points, tuple(sample.target_size.tolist()))
    torch.testing.assert_close(back, torch.from_numpy(pairs[0].points()[1]).float())


def test_images_are_resized_as_the_matcher_resizes_them(pairs):
    sample = PairDataset(pairs, sides=24)[0]
    torch.testing.assert_close(sample.target_image, to_tensor(load_image(pairs[0].target.path), 24))


def test_collate_pads_with_a_mask_and_never_with_a_number_that_means_something(pairs):
    batch = collate([PairDataset(pairs, sides=8)[index] for index in (0, 1)])
    assert batch.present.tolist() == [[True, True, True], [True, False, False]]
    assert batch.source_points.shape == (2, 3, 2)
    assert batch.box_present.tolist() == [True, True]
    assert batch.to("cpu").category == ["cat", "cat"]


def test_points_that_the_target_does_not_show_are_listed_apart(pairs):
    point = {"only here": (3.0, 4.0)}
    wider = replace(pairs[0], source=replace(pairs[0].source, keypoints={**pairs[0].source.keypoints, **point}))
    samples = [PairDataset([wider, pairs[1]], sides=8)[index] for index in (0, 1)]
    width, height = wider.source.size
    expected = torch.tensor([[2 * 3.0 / width - 1, 2 * 4.0 / height - 1]])
    torch.testing.assert_close(samples[0].unmatched_points, expected)
    batch = collate(samples)
    assert batch.unmatched.tolist() == [[True], [False]]
    assert batch.unmatched_points.shape == (2, 1, 2)
    assert collate(samples[1:]).unmatched_points.shape == (1, 0, 2)


def test_batches_are_measured_in_original_pixels(pairs):
    batch = collate([PairDataset(pairs, sides=8)[index] for index in (1, 0)])
    truth = (batch.target_points + 1) * batch.target_size[:, None] / 2
    torch.testing.assert_close(truth[1], torch.from_numpy(pairs[0].points()[1]).float())
    metric = PCK(len(pairs), ["cat"])
    parts = batch.present, batch.target_size, batch.target_box, batch.box_present
    targets = Targets(truth.numpy(), *(part.numpy() for part in parts))
    metric.update(truth.numpy(), targets, batch.index.numpy(), batch.category)
    assert metric.compute()["image"].tolist() == [1.0] * 5


def test_pairs_without_a_box_say_so(tmp_path):
    releases.write_pf_willow(tmp_path)
    batch = collate([PairDataset(read_pairs("pf-willow", "test", tmp_path).pairs, sides=8)[0]])
    assert batch.box_present.tolist() == [False]


def test_flipped_rows_show_mirrored_pixels(tmp_path):
    releases.write_pf_pascal(tmp_path)
    dataset = PairDataset(read_pairs("pf-pascal", "trn", tmp_path).pairs, sides=32)
    torch.testing.assert_close(dataset[1].source_image, dataset[0].source_image.flip(-1), atol=2 / 255, rtol=0)
    torch.testing.assert_close(dataset[1].source_points[:, 0], -dataset[0].source_points[:, 0])


def test_augmented_samples_depend_on_seed_epoch_and_index_but_not_on_workers(tmp_path):
    releases.write_voc(tmp_path, photos=12)
    pairs = read_pairs("voc-keypoints", "trn", tmp_path).pairs[:8]
    dataset = PairDataset(pairs, 16, Augmentation(photometric=0.5, crop=0.5, flip=0.5), seed=3)

    def images(workers, epoch):
        dataset.set_epoch(epoch)
        return torch.cat([b.images for b in DataLoader(dataset, batch_size=2, num_workers=workers, collate_fn=collate)])

    alone = images(0, epoch=1)
    torch.testing.assert_close(images(2, epoch=1), alone, rtol=0, atol=0)
    assert not torch.equal(images(0, epoch=2), alone)


def test_a_group_is_all_ordered_pairs_among_a_pair_and_other_images(tmp_path):
    releases.write_voc(tmp_path, photos=12)
    pairs = read_pairs("voc-keypoints", "trn", tmp_path).pairs
    dataset = GroupDataset(pairs, 16, None, images=4, seed=3)
    group = dataset[5]
    first = PairDataset(pairs, 16)[5]
    torch.testing.assert_close(group[0].source_image, first.source_image)
    torch.testing.assert_close(group[0].target_points, first.target_points)
    assert {sample.category for sample in group} == {first.category}
    batch = collate_groups([group])
    assert len(batch.images) == 4
    assert len({(s, t) for s, t in zip(batch.source.tolist(), batch.target.tolist(), strict=True)}) == len(group) > 4
    assert (batch.source != batch.target).all()
    for sample, source, target in zip(group, batch.source, batch.target, strict=True):
        assert torch.equal(batch.images[source], sample.source_image)
        assert torch.equal(batch.images[target], sample.target_image)


def test_groups_depend_on_seed_epoch_and_index_and_every_image_is_changed_once(tmp_path):
    releases.write_voc(tmp_path, photos=12)
    pairs = read_pairs("voc-keypoints", "trn", tmp_path).pairs
    changes = Augmentation(photometric=0.5, crop=0.5, flip=0.5)
    dataset = GroupDataset(pairs, 16, changes, images=5, seed=3)
    again = GroupDataset(pairs, 16, changes, images=5, seed=3)
    batches = [collate_groups([dataset[index]]) for index in range(6)]
    assert all(len(batch.images) <= 5 and len(batch.source) >= 1 for batch in batches)
    torch.testing.assert_close(collate_groups([again[2]]).images, batches[2].images, rtol=0, atol=0)
    dataset.set_epoch(1)
    changed = collate_groups([dataset[2]]).images
    assert changed.shape != batches[2].images.shape or not torch.equal(changed, batches[2].images)


def test_epochs_take_the_sides_in_turn_with_and_without_augmentation(tmp_path):
    releases.write_voc(tmp_path, photos=12)
    pairs = read_pairs("voc-keypoints", "trn", tmp_path).pairs
    for augmentation in (None, Augmentation()):
        group = GroupDataset(pairs, (16, 24), augmentation, images=3, seed=3)
        alone = PairDataset(pairs, (16, 24), augmentation)
        for epoch, side in enumerate((16, 24, 16)):
            for dataset in (group, alone):
                dataset.set_epoch(epoch)
            assert group[0][0].source_image.shape == alone[0].target_image.shape == (3, side, side)


def test_persistent_workers_see_the_new_epoch(tmp_path):
    releases.write_voc(tmp_path, photos=12)
    dataset = PairDataset(read_pairs("voc-keypoints", "trn", tmp_path).pairs[:4], 16, Augmentation(photometric=1.0))
    loader = DataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True, collate_fn=collate)
    first = next(iter(loader)).images
    dataset.set_epoch(1)
    assert not torch.equal(next(iter(loader)).images, first)


def test_cache_reads_an_image_once_and_evicts_the_oldest_when_full(pairs, monkeypatch):
    read = []

    def counting(image):
        read.append(image.path.name)
        return read_image(image)

    cache = ImageCache(counting, capacity=50 * 80 * 3)  # room for the larger image only
    for image in (pairs[0].target, pairs[0].target, pairs[0].source, pairs[0].target):
        cache[image]
    assert read == ["two.jpg", "one.jpg", "two.jpg"]


def test_to_square_is_bytes_of_the_whole_image():
    image = Image.fromarray(np.full((5, 9, 3), 77, dtype=np.uint8))
    assert to_square(image, 4).unique().tolist() == [77]
