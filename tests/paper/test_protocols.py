"""Protocols and models of the evaluated tables, on small releases whose errors are known by hand."""

import json

import numpy as np
import pytest

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.paper import evaluated_rows, requirements
from mambamatcher.paper.evaluated_rows import cells
from mambamatcher.paper.output import MEASURED
from mambamatcher.paper.tables import ReproduceOptions, reproduce
from tests.datasets import releases
from tests.helpers import run_cli

# from source to target points of the releases
TRUE_OFFSET = {"pf-willow": (40.0, 40.0), "pf-pascal": (4.0, 4.0), "spair": (2.0, 2.0)}


class Moved:
    """Finds every point of a release, moved by the error of the model of this name."""

    def __init__(self, name, offset):
        self.name, self.configuration, self.offset = name, {}, offset

    def predict_points(self, source, target, points):
        return points + self.offset, np.full(len(points), 0.5)


@pytest.fixture
def measure(tmp_path, matcher, monkeypatch):
    """Return a function that makes a table with models that err by given offsets: our rows by frame, and remarks."""
    loaded = []
    monkeypatch.setattr(Matcher, "from_pretrained", lambda model, **_: loaded.append(model) or matcher)

    def make(table, errors, **options):
        def predictor(name, _):
            offset, dataset = errors[name]
            return Moved(name, np.add(TRUE_OFFSET[dataset], offset))

        monkeypatch.setattr(evaluated_rows, "MatcherPredictor", predictor)
        result = reproduce(table, ReproduceOptions(root=tmp_path / "data", runs=tmp_path / "runs", **options))
        rows = [row for row in result.rows if row.origin == MEASURED]
        return rows, result.remarks, loaded

    return make


def shown(rows, frame):
    return [[cell.value for cell in row.cells] for row in rows if frame in row.protocol]


def test_alpha_bbox_of_pf_willow_is_the_box_around_padded_keypoints(measure, tmp_path):
    releases.write_pf_willow(tmp_path / "data")
    rows, _, loaded = measure("pf-willow", {"mine": ((0.95, 0.0), "pf-willow")}, pf_pascal_model="mine")
    assert loaded == ["mine"]
    # Keypoints extend over 9 x 9 pixels of a 120 x 90 image, from (40.5, 60.5) to (49.5, 69.5). In original pixels the
    # error is 0.95 / 9 = 0.106. In a square of 256 it is 0.95 x 256 / 120 = 2.03; the box has 9 x 256 / 90 = 25.6,
    # which makes 0.079, and padded with (-2, -2) 69.5 x 256 / 90 + 2 = 199.7, which makes 0.010.
    assert shown(rows, "original pixels") == [[None, None, 0.0, 0.0]]
    assert shown(rows, "scaled to a square") == [[100.0, 100.0, 0.0, 100.0]]


def test_the_main_table_takes_a_model_per_benchmark_and_shows_both_frames_and_costs(measure, tmp_path):
    releases.write_spair(tmp_path / "data")
    releases.write_pf_pascal(tmp_path / "data")
    errors = {"pascal": ((25.0, 0.0), "pf-pascal"), "spair": ((0.0, 0.0), "spair")}
    rows, remarks, _ = measure("main", errors, model="runs/spair", pf_pascal_model="runs/pascal")
    # 25 pixels of a 225 x 300 image: 25 / 300 = 0.083 in original pixels, 25 / 225 = 0.111 in the square
    assert shown(rows, "original pixels")[0][1:7] == [0.0, 100.0, 100.0, 100.0, 100.0, 100.0]
    assert shown(rows, "scaled to a square")[0][1:7] == [0.0, 0.0, 100.0, 100.0, 100.0, 100.0]
    assert {row.name for row in rows} == {"pascal (PF-PASCAL), spair (SPair-71k)"}
    milliseconds, gigabytes = rows[0].cells[-2:]
    assert milliseconds.value > 0
    assert gigabytes.value is None or gigabytes.value >= 0
    assert not any("--pf-pascal-model" in remark for remark in remarks)


def test_per_point_shows_both_frames(measure, tmp_path):
    releases.write_spair(tmp_path / "data")
    releases.write_pf_pascal(tmp_path / "data")
    errors = {"pascal": ((25.0, 0.0), "pf-pascal"), "spair": ((0.0, 0.0), "spair")}
    rows, _, _ = measure("per-point", errors, model="spair", pf_pascal_model="pascal")
    assert [row.name.rsplit(", ", 1)[1] for row in rows] == ["per image", "per point"] * 2
    assert shown(rows, "original pixels")[1][:3] == [0.0, 100.0, 100.0]
    assert shown(rows, "scaled to a square")[1][:3] == [0.0, 0.0, 100.0]


def test_a_model_that_was_not_trained_on_pf_pascal_is_stated(measure, tmp_path):
    releases.write_spair(tmp_path / "data")
    releases.write_pf_pascal(tmp_path / "data")
    # one model errs alike on both: exact on SPair-71k, (2, 2) off on PF-PASCAL
    _, remarks, loaded = measure("per-point", {"default": ((0.0, 0.0), "spair")})
    assert any("PF-PASCAL was measured with default too" in remark for remark in remarks)
    assert loaded == ["default"]


@pytest.mark.parametrize("table", ["pf-willow", "cross-dataset"])
def test_tables_of_generalisation_need_a_model_trained_on_pf_pascal(table, tmp_path):
    releases.write_spair(tmp_path)
    releases.write_pf_willow(tmp_path)
    with pytest.raises(InputError, match="a model trained on PF-PASCAL \\(--pf-pascal-model"):
        reproduce(table, ReproduceOptions(root=tmp_path, model="lite"))


def test_cross_dataset_shows_both_frames(measure, tmp_path):
    releases.write_spair(tmp_path / "data")
    rows, _, loaded = measure("cross-dataset", {"mine": ((5.0, 0.0), "spair")}, pf_pascal_model="mine")
    assert loaded == ["mine"]
    # a box of 40 x 60 pixels in a 50 x 80 image: 5 / 60 = 0.083 in original pixels; in the square the box is wider
    # than high, and the error is 5 / 40 = 0.125 of its width
    assert shown(rows, "original pixels") == [[0.0, 100.0, 100.0]]
    assert shown(rows, "scaled to a square") == [[0.0, 0.0, 100.0]]


def test_a_release_without_the_boxes_of_its_protocol_names_the_annotation(tmp_path):
    releases.write_spair(tmp_path, [releases.spair_annotation("000001-one-two:cat", trg_bndbox=None)])
    with pytest.raises(InputError, match=r"alpha_bbox needs .* pair 000001-one-two:cat has none for .*two\.jpg"):
        reproduce("categories", ReproduceOptions(root=tmp_path))


def test_a_protocol_that_does_not_exist_or_cannot_be_measured_names_those_that_can():
    report = {"dataset": "pf-willow", "split": "test", "scores": [{"reference": "bbox-kp", "scale": "isotropic"}]}
    report["scores"][0] |= {"average": "image", "values": []}
    with pytest.raises(ConfigError, match=r"unknown reference 'box'.* Known: bbox, bbox-kp, bbox-kp-padded, img"):
        cells(report, "box")
    with pytest.raises(ConfigError, match=r"unknown scale 'square'.* Known: anisotropic, isotropic"):
        cells(report, "img", "square")
    with pytest.raises(InputError, match="pf-willow test cannot be measured by bbox, isotropic, only by: bbox-kp, iso"):
        cells(report, "bbox")


def test_a_benchmark_that_does_not_exist_is_one_sentence_with_those_that_do(monkeypatch, capsys, tmp_path):
    code, out, err = run_cli(monkeypatch, capsys, "evaluate", "lite", "--dataset", "spiar", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "unknown dataset 'spiar'. Did you mean 'spair'? Known: ap10k, pf-pascal, pf-willow, spair" in err
    assert "Traceback" not in err


def test_a_folder_without_the_pair_list_names_the_file(monkeypatch, capsys, tmp_path):
    (tmp_path / "PF-WILLOW").mkdir()
    arguments = "reproduce", "pf-willow", "--root", tmp_path, "--pf-pascal-model", "lite", "--out", tmp_path / "out"
    code, _, err = run_cli(monkeypatch, capsys, *arguments)
    assert code == 2
    assert str(tmp_path / "PF-WILLOW" / "test_pairs.csv") in err
    assert "Traceback" not in err


FULL_SET, SMALL_SET = ("sort-key", "positional", "backbones"), ("correlation", "features", "significance")


@pytest.mark.parametrize("table", [*FULL_SET, *SMALL_SET])
def test_tables_of_the_full_set_are_trained_and_tested_on_it(table, tmp_path, monkeypatch):
    monkeypatch.setattr(requirements, "weights", lambda _: requirements.given("anything", "weights"))
    with pytest.raises(InputError) as caught:
        reproduce(table, ReproduceOptions(root=tmp_path, budget=2, base="paper"))
    small = "-small" if table in SMALL_SET else ""
    assert f"spair trn{small} (" in str(caught.value)
    assert f"spair test{small} (" in str(caught.value)


def test_a_row_of_the_small_set_is_not_taken_for_one_of_the_full_set(tmp_path):
    evaluation = {"protocol": "per image", "pairs": 1, "right": [[1, 2, 3]], "keypoints": [4]}
    for base, right in (("paper", [[1, 2, 3]]), ("paper-full", [[1, 3, 3]])):
        path = tmp_path / "rows" / base / "correlation-descending-seed0.json"
        path.parent.mkdir(parents=True)
        made = {"base": base, "steps": 2, "limit": None, "evaluations": {"here": {**evaluation, "right": right}}}
        path.write_text(json.dumps(made))
    options = ReproduceOptions(out=tmp_path, budget=2, base="paper", finished=True)
    found = {}
    for table in ("correlation", "sort-key"):
        (found[table],) = [row.cells[1].value for row in reproduce(table, options).rows if row.origin == MEASURED]
    assert found == {"correlation": 50.0, "sort-key": 75.0}
