"""Each parser reads back a small release written in the official form."""

import json

import numpy as np
import pytest

from mambamatcher.datasets.benchmarks import DATASETS, read_pairs
from mambamatcher.datasets.records import mirror_name
from mambamatcher.datasets.voc_keypoints import held_out, photo
from mambamatcher.errors import ConfigError, InputError
from tests.datasets import releases


def only(reading):
    assert len(reading.pairs) == 1
    return reading.pairs[0]


def test_spair_pair_is_read_with_all_official_fields(tmp_path):
    releases.write_spair(tmp_path)
    pair = only(read_pairs("spair", "test", tmp_path))
    assert pair.name == "000001-one-two:cat"
    assert pair.names == ("0", "7", "11")
    assert pair.source.size == (60, 40)
    assert pair.target.bbox == (5, 10, 45, 70)
    assert pair.variation == {"viewpoint": 1, "scale": 2, "truncation": 3, "occlusion": 0, "mirror": 0}
    source, target = pair.points()
    assert source.tolist() == [[10, 11], [20, 21], [30, 31]]
    assert target.tolist() == [[12, 13], [22, 23], [32, 33]]


def test_spair_fields_that_are_null_stay_unknown(tmp_path):
    nulls = dict.fromkeys(("kps_ids", "mirror", "viewpoint_variation", "scale_variation", "truncation", "occlusion"))
    releases.write_spair(tmp_path, [releases.spair_annotation(**nulls)])
    pair = only(read_pairs("spair", "test", tmp_path))
    assert pair.variation == {}
    assert pair.names == ("0", "1", "2")


@pytest.mark.parametrize("colon", [":", "_", "%3A", "\uf03a"])
def test_spair_is_read_where_unpacking_replaced_the_colon(tmp_path, colon):
    releases.write_spair(tmp_path, colon=colon)
    assert only(read_pairs("spair", "test", tmp_path)).name == "000001-one-two:cat"


def test_spair_small_layout_is_a_split_of_its_own(tmp_path):
    releases.write_spair(tmp_path, layout="small")
    assert only(read_pairs("spair", "test-small", tmp_path)).category == "cat"
    with pytest.raises(InputError, match=r"large/test\.txt"):
        read_pairs("spair", "test", tmp_path)


def test_spair_u_takes_list_and_images_of_its_neighbour_and_skips_what_was_not_annotated_again(tmp_path):
    spair = releases.write_spair(
        tmp_path, [releases.spair_annotation(), releases.spair_annotation("000002-one-two:cat")]
    )
    annotations = tmp_path / "SPair-U" / "PairAnnotation" / "test"
    annotations.mkdir(parents=True)
    changed = releases.spair_annotation(src_kps=[[1, 2]], trg_kps=[[3, 4]], kps_ids=["30"])
    (annotations / "000001-one-two:cat.json").write_text(json.dumps(changed))
    pair = only(read_pairs("spair-u", "test", tmp_path))
    assert pair.names == ("30",)
    assert pair.source.path.is_relative_to(spair)


def test_pf_pascal_keypoints_with_nan_in_either_image_are_absent(tmp_path):
    releases.write_pf_pascal(tmp_path)
    pair = only(read_pairs("pf-pascal", "val", tmp_path))
    source, target = pair.points()
    assert pair.category == "cat"
    assert source.tolist() == [[10.5, 20.0], [100.0, 30.25]]
    assert target.tolist() == [[11.5, 21.0], [101.0, 31.25]]
    assert pair.target.bbox == (5, 6, 155, 106)


def test_pf_pascal_flip_rows_mirror_points_boxes_and_pixels(tmp_path):
    releases.write_pf_pascal(tmp_path)
    plain, flipped = read_pairs("pf-pascal", "trn", tmp_path).pairs
    assert flipped.source.flip
    assert not plain.source.flip
    np.testing.assert_allclose(flipped.points()[0][:, 0], 300 - plain.points()[0][:, 0])
    np.testing.assert_allclose(flipped.points()[1][:, 0], 225 - plain.points()[1][:, 0])
    assert flipped.source.bbox == (300 - 155, 6, 300 - 5, 106)


def test_pf_pascal_test_keypoints_come_from_the_list(tmp_path):
    releases.write_pf_pascal(tmp_path)
    source, target = only(read_pairs("pf-pascal", "test", tmp_path)).points()
    assert source.tolist() == [[1.5, 3.5], [2.5, 4.5]]
    assert target.tolist() == [[5.5, 7.5], [6.5, 8.5]]


def test_pf_pascal_names_make_keypoints_that_can_be_told_left_from_right(tmp_path):
    folder = releases.write_pf_pascal(tmp_path)
    (folder / "keypoint_names.json").write_text(json.dumps({"cat": ["L_Eye", "R_Eye", "Nose"]}))
    plain, flipped = read_pairs("pf-pascal", "trn", tmp_path).pairs
    assert plain.names == ("L_Eye", "Nose")
    assert flipped.names == ("R_Eye", "Nose")


def test_pf_willow_has_ten_keypoints_and_no_box(tmp_path):
    releases.write_pf_willow(tmp_path)
    pair = only(read_pairs("pf-willow", "test", tmp_path))
    source, target = pair.points()
    assert pair.category == "car(G)"
    assert pair.target.bbox is None
    np.testing.assert_allclose(source, np.stack([np.arange(10) + 0.5, np.arange(10) + 20.5], axis=1))
    np.testing.assert_allclose(target[-1], [49.5, 69.5])


def test_voc_splits_share_no_photo_even_between_folders(tmp_path):
    for folder in ("VOC2011-keypoints", "VOC2011-instances"):
        releases.write_voc(tmp_path, folder)
    photos = {}
    for split in ("trn", "selection"):
        pairs = read_pairs("voc", split, tmp_path).pairs
        photos[split] = {photo(image.path) for pair in pairs for image in (pair.source, pair.target)}
        assert all(photo(pair.source.path) != photo(pair.target.path) for pair in pairs)
        assert all(len(pair.names) >= 3 and pair.source.category == pair.target.category for pair in pairs)
    assert not photos["trn"] & photos["selection"]
    assert all(map(held_out, photos["selection"]))


def test_voc_pairs_are_the_same_every_time_and_leave_out_what_cannot_be_seen(tmp_path):
    releases.write_voc(tmp_path)
    first, second = (read_pairs("voc-keypoints", "trn", tmp_path).pairs for _ in range(2))
    assert first == second
    images = {image.path.stem: image for pair in first for image in (pair.source, pair.target)}
    assert all("Tail" not in image.keypoints for name, image in images.items() if int(name[-6:]) % 3 != 2)
    assert "2008_000004" not in images  # its nose lies outside the image, which leaves two keypoints


@pytest.mark.parametrize(("split", "categories"), [("test-cross-species", ["Bovidae"]), ("test-cross-family", ["all"])])
def test_ap10k_prepared_pairs_are_found_wherever_they_were_prepared(tmp_path, split, categories):
    releases.write_ap10k_prepared(tmp_path)
    pair = only(read_pairs("ap10k", split, tmp_path))
    assert [pair.category] == categories
    assert pair.target.bbox == (2, 3, 32, 23)
    assert len(pair.names) == 15


def test_ap10k_pairs_drawn_from_the_published_annotations_respect_species_and_family(tmp_path):
    releases.write_ap10k_coco(tmp_path)
    families = dict(releases.SPECIES.values())
    same = read_pairs("ap10k", "test", tmp_path).pairs
    species = read_pairs("ap10k", "test-cross-species", tmp_path).pairs
    family = read_pairs("ap10k", "test-cross-family", tmp_path).pairs
    assert same
    assert all(pair.source.category == pair.target.category for pair in same)
    assert species
    assert {pair.category for pair in species} == {"Bovidae"}
    assert all(pair.source.category != pair.target.category for pair in species)
    assert family
    assert all(families[pair.source.category] != families[pair.target.category] for pair in family)
    shown = {image.path.stem for pair in [*same, *species, *family] for image in (pair.source, pair.target)}
    assert f"{0:012d}" not in shown  # two animals in one image


def test_root_may_be_the_benchmark_itself_or_come_from_the_environment(tmp_path, monkeypatch):
    folder = releases.write_spair(tmp_path)
    assert only(read_pairs("spair", "test", folder)).category == "cat"
    monkeypatch.setenv("MAMBAMATCHER_DATA", str(tmp_path))
    assert only(read_pairs("spair", "test")).category == "cat"
    monkeypatch.delenv("MAMBAMATCHER_DATA")
    with pytest.raises(InputError, match="MAMBAMATCHER_DATA"):
        read_pairs("spair", "test")


def test_unknown_dataset_and_split_say_what_was_meant(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'spair'"):
        read_pairs("spairs", "test", tmp_path)
    with pytest.raises(ConfigError, match="Did you mean 'test'"):
        read_pairs("spair", "tests", tmp_path)


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_benchmark_says_how_to_get_it_and_what_it_is_measured_by(name):
    assert DATASETS[name].get
    assert DATASETS[name].reference in ("img", "bbox", "bbox-kp")


def test_unseen_keypoints_are_never_trained_on_and_left_goes_with_right(tmp_path):
    folder = releases.write_voc(tmp_path, photos=60)
    listing = folder / "annotations.json"
    entries = json.loads(listing.read_text())
    for entry in entries:
        entry["kps"] |= {name: [10 + k, 12, 1] for k, name in enumerate(("L_Ear", "R_Ear", "L_Paw", "R_Paw", "Chin"))}
    listing.write_text(json.dumps(entries))
    names = {
        split: {
            (pair.category, name) for pair in read_pairs("voc-keypoints", split, tmp_path).pairs for name in pair.names
        }
        for split in ("trn", "trn-seen", "selection-unseen")
    }
    assert names["trn-seen"].isdisjoint(names["selection-unseen"])
    assert {category for category, _ in names["selection-unseen"]} == {"cat", "dog"}
    assert {(category, mirror_name(name)) for category, name in names["trn-seen"]} == names["trn-seen"]
    assert len(names["trn-seen"]) < len(names["trn"])
