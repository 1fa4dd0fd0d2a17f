import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import ConfigError, InputError, WeightsError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.checkpoint import load_pretrained
from mambamatcher.model.saved import SHIPPED
from mambamatcher.paper import tables
from mambamatcher.paper.evaluated_rows import untrained_config, untrained_model
from mambamatcher.paper.figures import FIGURES
from mambamatcher.paper.output import MEASURED, QUOTED, Cell, Row, TableResult, write_figure, write_table
from mambamatcher.paper.tables import ReproduceOptions, reproduce


def no_weights(_):
    raise WeightsError("DINOv2's weights are not on this machine")


COST = tuple(Cell(value=value) for value in (17, 2.5, 0.5, 1.5))
NEEDS_DATA = ("main", "per-point", "categories", "pf-willow", "cross-dataset", "resolution", "facets", "layers")
TRAINED = ("features", "correlation", "sort-key", "positional", "significance")


@pytest.mark.parametrize("name", [*NEEDS_DATA, *TRAINED])
def test_a_table_without_its_data_stops_before_computing(name, tmp_path, monkeypatch):
    monkeypatch.setattr(VitConfig, "build", no_weights)
    monkeypatch.setattr(Matcher, "from_pretrained", lambda *_, **__: pytest.fail("a model was loaded"))
    monkeypatch.setattr(tables, "train_rows", lambda *_: pytest.fail("a row was trained"))
    with pytest.raises(InputError, match=r"because this is missing: .*Nothing was computed"):
        reproduce(name, ReproduceOptions(root=tmp_path, budget=2))
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_missing_is_named_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        reproduce("main", ReproduceOptions(root=tmp_path))
    assert "pf-pascal test" in str(caught.value)
    assert "SPair-71k.tar.gz" in str(caught.value)


def test_a_table_without_its_weights_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(VitConfig, "build", no_weights)
    with pytest.raises(InputError, match="DINOv2's weights are not"):
        reproduce("facets", ReproduceOptions(root=tmp_path, base="paper"))


def test_tables_about_dinov2_refuse_another_base(tmp_path):
    with pytest.raises(ConfigError, match="needs --base vit-s or paper, got embedded"):
        reproduce("layers-combined", ReproduceOptions(root=tmp_path, budget=2, base="embedded"))


@pytest.mark.parametrize("table", ["facets", "correlation"])
def test_a_base_that_does_not_exist_is_refused(table, tmp_path):
    with pytest.raises(ConfigError, match="unknown base 'vit-m'"):
        reproduce(table, ReproduceOptions(root=tmp_path, budget=2, base="vit-m"))


@pytest.mark.parametrize(
    ("base", "name"), [(None, "positional"), ("embedded", "positional"), ("vit-s", "positional-vit-s")]
)
def test_a_table_on_another_base_has_a_name_of_its_own(base, name, tmp_path):
    found = reproduce("positional", ReproduceOptions(budget=2, finished=True, base=base, out=tmp_path))
    assert found.name == name


def test_a_single_facet_of_the_shipped_backbone_is_what_the_shipped_model_computes():
    shipped = load_pretrained(SHIPPED["default"])
    model = untrained_model("vit-s", untrained_config("vit-s", 7, "token"))
    image = torch.rand(1, 3, 56, 56)
    position = shipped.config.backbone.layers.index(7)
    assert_close(model.backbone(image)[:, 0], shipped.backbone(image)[:, position])


def test_the_league_shows_the_cost_of_each_head_beside_its_pck(tmp_path, monkeypatch):
    monkeypatch.setattr(tables.costs, "head_cost", lambda *_, **__: COST)
    evaluation = {"protocol": "per image", "pairs": 2, "right": [[1, 2, 3], [0, 1, 1]], "keypoints": [4, 2]}
    made = {"base": "vit-s", "steps": 2, "limit": None, "evaluations": {"voc selection": evaluation}}
    rows = tmp_path / "rows" / "vit-s"
    rows.mkdir(parents=True)
    for key in ("league-cats", "league-scan"):
        (rows / f"{key}-seed0.json").write_text(json.dumps(made))
    found = reproduce("league", ReproduceOptions(budget=2, finished=True, out=tmp_path))
    assert found.columns == ("PCK@0.05", "PCK@0.10", "PCK@0.15", "parameters", "ms", "GB", "GB, training")
    assert [row.name for row in found.rows] == ["CATs", "similarity-aware scan"]
    assert [str(cell) for cell in found.rows[0].cells[1:]] == [
        "50.0 (50.0 to 50.0)",
        "62.5 (50.0 to 75.0)",
        "17",
        "2.5",
        "0.5",
        "1.5",
    ]
    assert "against CATs: +0.00 points" in found.remarks[1]


def test_training_as_the_paper_did_needs_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(VitConfig, "build", no_weights)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"a GPU .*spair trn-small .*DINOv2's weights are not .*Nothing was computed"):
        reproduce("correlation", ReproduceOptions(root=tmp_path, budget=2, base="paper"))


def test_finished_rows_are_shown_without_data_or_training(tmp_path):
    made = {"base": "embedded", "steps": 2, "limit": None}
    evaluation = {"protocol": "per image", "pairs": 2, "right": [[1, 2, 3], [0, 1, 1]], "keypoints": [4, 2]}
    for key in ("correlation-raster", "correlation-descending"):
        path = tmp_path / "rows" / f"{key}-seed0.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**made, "evaluations": {"here": evaluation}}))
    result = reproduce("correlation", ReproduceOptions(out=tmp_path, budget=2, finished=True))
    measured = [row for row in result.rows if row.origin == MEASURED]
    assert [(row.name, row.cells[1].value) for row in measured] == [("Mamba4D", 50.0), ("+ descending order", 50.0)]
    assert any("+ descending order against Mamba4D: +0.00 points" in remark for remark in result.remarks)


def test_numbers_of_two_protocols_never_share_a_table():
    cells = (Cell(value=1.0),)
    rows = [
        Row(name="theirs", origin=QUOTED, protocol="test", cells=cells),
        Row(name="ours", origin=MEASURED, protocol="test", cells=cells),
        Row(name="ours", origin=MEASURED, protocol="val", cells=cells),
    ]
    text = TableResult(name="t", title="T", label="l", columns=("a",), headline=0, rows=rows).markdown()
    assert text.count("| row | a |") == 3
    assert "**Quoted from the paper**: test." in text


def test_an_unknown_table_says_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'correlation'"):
        reproduce("corelation", ReproduceOptions())


@pytest.mark.parametrize("name", ["flops-theory", "baselines"])
def test_a_table_is_written_as_json_markdown_and_chart(name, tmp_path):
    paths = write_table(reproduce(name, ReproduceOptions()), tmp_path)
    assert [path.suffix for path in paths] == [".json", ".md", ".png"]
    origins = {row["origin"] for row in json.loads(paths[0].read_text())["rows"]}
    assert QUOTED in origins
    assert QUOTED.capitalize() in paths[1].read_text()


def test_measured_numbers_show_their_interval_and_protocol():
    row = Row(name="ours", origin=MEASURED, protocol="selection", cells=(Cell(value=61.23, low=60.0, high=62.5),))
    assert str(row.cells[0]) == "61.2 (60.0 to 62.5)"
    assert str(Cell()) == "-"


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_is_made_with_the_tiny_model(name, inputs, tmp_path):
    if name == "attribution":
        pytest.importorskip("captum")
    result = FIGURES[name](inputs)
    paths = write_figure(result, tmp_path)
    assert all(path.stat().st_size > 0 for path in paths)
    assert json.loads(paths[0].read_text())["numbers"]


def test_numbers_can_be_written_without_the_photos(inputs, tmp_path):
    paths = write_figure(FIGURES["failures"](inputs), tmp_path, with_image=False)
    assert [path.name for path in paths] == ["failures.json", "failures.md"]
    assert ".png" not in paths[1].read_text()


@pytest.mark.parametrize("name", ["aggregators", "scan-orders"])
def test_a_comparison_needs_two_models(name, inputs, matcher):
    alone = replace(inputs, matchers={"tiny": matcher})
    with pytest.raises(InputError, match="--model twice"):
        FIGURES[name](alone)


def test_the_scan_table_shows_the_state_and_compares_with_the_sum_and_the_block_without_state(tmp_path):
    rows = tmp_path / "rows" / "vit-s"
    rows.mkdir(parents=True)
    right = {"correlation-linear": 1, "scan-no-state": 2, "correlation-descending": 3, "control-linear": 0}
    for key, count in right.items():
        evaluation = {"protocol": "per image", "pairs": 2, "right": [[count] * 3, [count] * 3], "keypoints": [4, 4]}
        made = {"base": "vit-s", "steps": 2, "limit": None, "evaluations": {"voc selection": evaluation}}
        made["state_logits"] = 0.5 if key == "correlation-descending" else None
        (rows / f"{key}-seed0.json").write_text(json.dumps(made))
    found = reproduce("scan", ReproduceOptions(budget=2, finished=True, out=tmp_path))
    assert {row.name: str(row.cells[-1]) for row in found.rows} == {
        "linear sum": "-",
        "block without state": "-",
        "descending order": "0.5",
        "noise, linear sum": "-",
    }
    assert [line.split(" points")[0] for line in found.remarks[1:]] == [
        "voc selection: block without state against linear sum: +25.00",
        "voc selection: descending order against linear sum: +50.00",
        "voc selection: descending order against block without state: +25.00",
    ]


def test_a_table_without_a_finished_row_is_refused(tmp_path):
    with pytest.raises(InputError, match="no row of the table scan is finished"):
        reproduce("scan", ReproduceOptions(budget=2, finished=True, out=tmp_path))
