"""A file of annotated images is a dataset, whose images are split by their names."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from mambamatcher.datasets.benchmarks import find_dataset, read_pairs
from mambamatcher.datasets.own_data import choose_held_out
from mambamatcher.datasets.records import AnnotatedImage
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.io.points import make_points, read_annotations, write_points
from tests.datasets.own_files import NAMES, SIZE, write_own


def images_of(pairs):
    return {image.path.name for pair in pairs for image in (pair.source, pair.target)}


def read(file, images, split="trn", **changes):
    return read_pairs(str(file), split, images, **changes).pairs


@pytest.mark.parametrize("suffix", [".coco.json", ".json", ".csv"])
def test_every_format_gives_the_same_pairs_and_all_of_them(suffix, tmp_path):
    file, images = write_own(tmp_path, 12, suffix)
    pairs = read(file, images, "all")
    assert len(pairs) == 12 * 11
    assert len({pair.name for pair in pairs}) == 12 * 11
    pair = next(each for each in pairs if each.name.startswith("003.png-007.png:"))
    expected = read_annotations(file)["003.png"]
    assert pair.names == NAMES
    assert pair.points()[0] == pytest.approx(expected.points)
    assert pair.source.size == SIZE


@pytest.mark.parametrize("seed", range(5))
def test_no_image_is_in_both_splits_and_each_is_in_one(seed, tmp_path):
    file, images = write_own(tmp_path, 20)
    training, held_out = (images_of(read(file, images, split, split_seed=seed)) for split in ("trn", "val"))
    assert not training & held_out
    assert len(training | held_out) == 20
    assert 3 <= len(held_out) <= 10


def test_another_seed_holds_out_others_and_the_same_seed_the_same(tmp_path):
    file, images = write_own(tmp_path, 20)
    chosen = [frozenset(images_of(read(file, images, "val", split_seed=seed))) for seed in (0, 0, 1, 2)]
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) == 3


def test_an_image_stays_in_its_split_when_others_are_added_or_the_root_is_another(tmp_path):
    file, images = write_own(tmp_path / "few", 40)
    more, all_images = write_own(tmp_path / "more", 60)
    before, after = images_of(read(file, images, "val")), images_of(read(more, all_images, "val"))
    assert before == {name for name in after if int(name[:3]) < 40}
    file.write_text(file.read_text().replace('"file_name": "', '"file_name": "images/'))
    assert images_of(read(file, images, "val")) == images_of(read(file, images.parent, "val")) == before


def test_about_a_fifth_of_many_images_is_held_out():
    images = [AnnotatedImage(Path(f"{number}.png"), SIZE, "cat", {}) for number in range(2000)]
    assert len(choose_held_out(images, 0)) == pytest.approx(400, abs=60)


def test_an_image_with_two_categories_is_held_out_from_both_or_from_none(tmp_path):
    images = [AnnotatedImage(Path(f"{n}.png"), SIZE, category, {}) for n in range(9) for category in ("cat", "dog")]
    images += [AnnotatedImage(Path(f"{n}.png"), SIZE, "cow", {}) for n in range(9, 15)]
    held_out = choose_held_out(images, 0)
    assert all(
        len([each for each in images if each.path in held_out and each.category == name]) >= 3
        for name in ("cat", "dog", "cow")
    )


def test_category_and_box_are_those_of_the_file(tmp_path):
    file, images = write_own(tmp_path, 8)
    content = json.loads(file.read_text())
    content["categories"][0]["name"] = "beetle"
    for entry in content["annotations"]:
        entry["bbox"] = [1.0, 2.0, 40.5, 30.0]
    content["annotations"][3]["bbox"] = [-5.0, 0.0, 80.0, 20.0]  # a careless box, which ends at the image's edges
    file.write_text(json.dumps(content))
    pairs = read(file, images, "all")
    assert {pair.category for pair in pairs} == {"beetle"}
    boxes = {image.path.name: image.bbox for pair in pairs for image in (pair.source, pair.target)}
    assert boxes["000.png"] == (1.0, 2.0, 41.5, 32.0)
    assert boxes["003.png"] == (0.0, 0.0, 48.0, 20.0)


def test_without_a_box_in_the_file_it_encloses_the_visible_points(tmp_path):
    file, images = write_own(tmp_path, 4, ".json")
    found = {image.path.name: image for pair in read(file, images, "all") for image in (pair.source, pair.target)}
    points = read_annotations(file)["002.png"].points
    assert found["002.png"].bbox == pytest.approx((*points.min(axis=0), *points.max(axis=0)))


@pytest.mark.parametrize(
    "written", ["images/", "labeled-data/images/", "C:\\\\data\\\\images\\\\", "/home/ann/", "../x/"]
)
def test_images_are_found_below_the_root_whatever_folders_the_file_names(written, tmp_path):
    file, images = write_own(tmp_path, 6, ".json")
    file.write_text(re.sub(r'"(\d+.png)"', lambda found: f'"{written}{found[1]}"', file.read_text()))
    assert len(images_of(read(file, images, "all"))) == 6


def test_images_in_folders_of_equal_names_are_different_images(tmp_path):
    file, images = write_own(tmp_path, 6, ".json")
    (images / "a").mkdir()
    (images / "b").mkdir()
    (images / "000.png").rename(images / "a" / "1.png")
    (images / "001.png").rename(images / "b" / "1.png")
    file.write_text(file.read_text().replace("000.png", "a/1.png").replace("001.png", "b/1.png"))
    assert len({pair.name for pair in read(file, images, "all")}) == 30


def test_images_lie_beside_the_file_where_no_root_is_given(tmp_path):
    file, images = write_own(tmp_path, 6)
    moved = shutil.copy(file, images / file.name)
    assert len(images_of(read_pairs(str(moved), "all").pairs)) == 6


def test_objects_with_two_names_are_pairs_of_two_points(tmp_path):
    file, images = write_own(tmp_path, 6, names=("top", "bottom"))
    assert Counter(len(pair.names) for pair in read(file, images, "all")) == {2: 30}


def change_first(file, key, value):
    content = json.loads(file.read_text())
    content["images"]["000.png"][key] = value
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda file, images: (images / "002.png").unlink(),
            r"points.json: image '002.png': there is no such file below",
        ),
        (lambda file, images: (images / "002.png").write_bytes(b"GIF"), r"002.png"),
        (lambda file, images: shutil.copy(images / "001.png", images / "002.png"), r"the same picture as '001.png'"),
        (
            lambda file, images: change_first(file, "points", [[2, 3], [49, 36], [70, 9], [5, 6]]),
            r"image '000.png': the point 'nose' at \(70, 9\) lies outside its 48x36 pixels",
        ),
        (lambda file, images: change_first(file, "visibility", [0, 0, 1, 0]), r"'000.png': it has no visible point"),
    ],
)
def test_a_bad_image_is_named_with_its_file_and_can_be_skipped(damage, message, tmp_path):
    file, images = write_own(tmp_path, 8, ".json")
    damage(file, images)
    with pytest.raises(InputError, match=message):
        read(file, images)
    reading = read_pairs(str(file), "all", images, skip_bad=True)
    assert len(images_of(reading.pairs)) == 7
    assert reading.skipped


def test_a_wrong_root_is_one_sentence(tmp_path):
    file, _ = write_own(tmp_path, 8)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"none of the 8 images .*'000.png'.* is below .*empty; .* --root"):
        read(file, tmp_path / "empty")
    with pytest.raises(InputError, match="does not exist"):
        read(file, tmp_path / "nowhere")


def test_too_few_images_are_refused_for_a_split_only(tmp_path):
    file, images = write_own(tmp_path, 3)
    with pytest.raises(InputError, match="points on 3 images, and a split needs at least 4"):
        read(file, images)
    assert len(read(file, images, "all")) == 6


def test_images_that_share_no_names_are_shown(tmp_path):
    file, images = write_own(tmp_path, 6, ".json")
    annotations = {
        name: make_points(points.points, [f"{name}-{k}" for k in range(4)])
        for name, points in read_annotations(file).items()
    }
    write_points(file, annotations, overwrite=True)
    with pytest.raises(InputError, match=r"share 3 named points, for example .*'00\d.png-0'.* use the same names"):
        read(file, images)


def test_points_of_an_unnamed_image_are_refused(tmp_path):
    file = tmp_path / "points.json"
    file.write_text('{"points": [[1, 2], [3, 4], [5, 6]]}')
    with pytest.raises(InputError, match="does not say which images"):
        read(file, tmp_path)


def test_a_file_that_is_not_there_and_a_split_it_does_not_have_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none.coco.json: No such file"):
        read(tmp_path / "none.coco.json", tmp_path)
    file, images = write_own(tmp_path, 6)
    with pytest.raises(ConfigError, match="Known: all, trn, val"):
        read(file, images, "selection")
    with pytest.raises(ConfigError, match=r"unknown dataset 'spairs'. Did you mean 'spair'"):
        find_dataset("spairs")
    assert find_dataset(str(file)).held_out_split == find_dataset(str(file)).evaluation_split == "val"
    assert find_dataset("spair").evaluation_split == "test"
