"""Whatever is wrong with a release is named with its file; nothing is dropped unseen."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import InputError
from tests.datasets import releases

GOOD = releases.spair_annotation()


def broken_spair(root, **changes):
    other = releases.spair_annotation("000002-three-four:cat", src_imname="three.jpg", trg_imname="four.jpg", **changes)
    return releases.write_spair(root, [GOOD, other])


def assert_named_and_skippable(root, *words, dataset="spair"):
    with pytest.raises(InputError) as caught:
        read_pairs(dataset, "test", root)
    for word in (*words, "--skip-bad"):
        assert word in str(caught.value)
    reading = read_pairs(dataset, "test", root, skip_bad=True)
    assert len(reading.pairs) == 1
    assert len(reading.skipped) == 1
    assert words[0] in reading.skipped[0]


def test_missing_image(tmp_path):
    (broken_spair(tmp_path) / "JPEGImages" / "cat" / "three.jpg").unlink()
    assert_named_and_skippable(tmp_path, "three.jpg")


def test_truncated_jpeg(tmp_path):
    releases.truncate(broken_spair(tmp_path) / "JPEGImages" / "cat" / "four.jpg")
    assert_named_and_skippable(tmp_path, "four.jpg", "truncated")


def test_image_of_another_size_than_annotated(tmp_path):
    releases.write_picture(broken_spair(tmp_path) / "JPEGImages" / "cat" / "four.jpg", (80, 50))
    assert_named_and_skippable(tmp_path, "four.jpg", "80x50")


@pytest.mark.parametrize("text", ["{", "[]", '{"filename": "x"}', "\xff"])
def test_malformed_annotation(tmp_path, text):
    path = broken_spair(tmp_path) / "PairAnnotation" / "test" / "000002-three-four:cat.json"
    path.write_bytes(text.encode("latin-1"))
    assert_named_and_skippable(tmp_path, path.name)


def test_missing_annotation(tmp_path):
    path = broken_spair(tmp_path) / "PairAnnotation" / "test" / "000002-three-four:cat.json"
    path.unlink()
    assert_named_and_skippable(tmp_path, path.name)


@pytest.mark.parametrize(
    "changes",
    [
        {"src_kps": [], "trg_kps": [], "kps_ids": []},
        {"src_kps": [[1, 2], None, None], "trg_kps": [None, [1, 2], None]},
    ],
)
def test_pair_without_a_shared_keypoint(tmp_path, changes):
    broken_spair(tmp_path, **changes)
    assert_named_and_skippable(tmp_path, "000002-three-four:cat", "share no keypoint")


def test_lists_of_keypoints_that_differ_in_length(tmp_path):
    broken_spair(tmp_path, trg_kps=[[1, 2]])
    assert_named_and_skippable(tmp_path, "000002-three-four:cat.json", "differ in length")


@pytest.mark.parametrize("box", [[5, 10, 145, 70], [45, 70, 5, 10], [-30, 0, 10, 10], [5, 10, float("nan"), 70]])
def test_box_outside_the_image(tmp_path, box):
    broken_spair(tmp_path, trg_bndbox=box)
    assert_named_and_skippable(tmp_path, "four.jpg", "box")


def test_bad_csv_row_and_bad_mat_file(tmp_path):
    folder = releases.write_pf_pascal(tmp_path)
    (folder / "test_pairs.csv").write_text((folder / "test_pairs.csv").read_text().replace(",8,", ",eight,"))
    with pytest.raises(InputError, match=r"test_pairs\.csv.*eight"):
        read_pairs("pf-pascal", "test", tmp_path)
    (folder / "test_pairs.csv").write_text((folder / "test_pairs.csv").read_text().replace(",eight,", ",0,"))
    with pytest.raises(InputError, match=r"test_pairs\.csv.*no class 0"):
        read_pairs("pf-pascal", "test", tmp_path)
    with (folder / "val_pairs.csv").open("a") as file:
        file.write("a.jpg,b.jpg\n")
    with pytest.raises(InputError, match=r"val_pairs\.csv: line 3"):
        read_pairs("pf-pascal", "val", tmp_path)
    mat = folder / "Annotations" / "cat" / "2008_000001.mat"
    for content in (b"", b"not a matlab file at all", mat.read_bytes()[:150]):
        mat.write_bytes(content)
        with pytest.raises(InputError, match=r"2008_000001\.mat"):
            read_pairs("pf-pascal", "trn", tmp_path)
    savemat(mat, {"kps": np.zeros((3, 2))})
    with pytest.raises(InputError, match=r"2008_000001\.mat.*bbox"):
        read_pairs("pf-pascal", "trn", tmp_path)


def test_willow_row_with_a_missing_column(tmp_path):
    folder = releases.write_pf_willow(tmp_path)
    lines = (folder / "test_pairs.csv").read_text().splitlines()
    (folder / "test_pairs.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    with pytest.raises(InputError, match=r"test_pairs\.csv.*41 columns"):
        read_pairs("pf-willow", "test", tmp_path)


def test_voc_annotations_that_are_no_list(tmp_path):
    folder = releases.write_voc(tmp_path)
    (folder / "annotations.json").write_text(json.dumps({"images": []}))
    with pytest.raises(InputError, match=r"annotations\.json"):
        read_pairs("voc-keypoints", "trn", tmp_path)


@pytest.mark.parametrize("field", ["image", "category"])
def test_half_a_character_in_a_name(tmp_path, field):
    listing = releases.write_voc(tmp_path) / "annotations.json"
    entries = json.loads(listing.read_text())
    entries[3][field] += "\ud800"
    listing.write_text(json.dumps(entries))
    with pytest.raises(InputError, match=r"annotations\.json: the name '[^']*\\ud800") as caught:
        read_pairs("voc-keypoints", "trn", tmp_path)
    assert str(caught.value).isascii()  # a terminal can show it
    assert read_pairs("voc-keypoints", "trn", tmp_path, skip_bad=True).skipped


def test_split_of_nothing_but_bad_pairs_is_an_error_even_when_skipping(tmp_path):
    folder = releases.write_spair(tmp_path)
    releases.truncate(folder / "JPEGImages" / "cat" / "one.jpg")
    with pytest.raises(InputError, match="no usable pair"):
        read_pairs("spair", "test", tmp_path, skip_bad=True)
