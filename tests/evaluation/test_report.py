"""Reports record how they were made; the gallery is one self-contained page."""

import io
import json
from html.parser import HTMLParser

import pytest
from rich.console import Console

from mambamatcher.errors import InputError
from mambamatcher.evaluation.console import print_report
from mambamatcher.evaluation.evaluate import GALLERY, evaluate
from mambamatcher.evaluation.report import read_report
from tests.evaluation.conftest import Offset


@pytest.fixture
def report(request_):
    return evaluate(Offset((5.0, 0.0)), request_)


def test_report_is_stamped_with_model_configuration_data_and_protocol(report, request_):
    assert report == json.loads((request_.output / "report.json").read_text())
    assert report["model"] == "offset"
    assert report["configuration"] == {"offset": [5.0, 0.0]}
    assert len(report["fingerprint"]) == 16
    assert report["headline"] == {"reference": "bbox", "scale": "isotropic", "average": "image"}
    first = report["scores"][0]
    assert (first["reference"], first["scale"], first["average"]) == ("bbox", "isotropic", "image")
    # 5 pixels off with a box of 60: wrong at 0.05, right at 0.1
    assert [value["value"] for value in first["values"]] == [0, 0, 1, 1, 1]
    assert report["left_right"] == {"confused": 0, "keypoints": 10, "rate": 0.0}
    assert [part["level"] for part in report["slices"] if part["grade"] == "viewpoint"] == ["easy", "medium", "hard"]


def test_release_without_boxes_is_measured_by_image_size(root, request_):
    for path in (root / "SPair-71k" / "PairAnnotation" / "test").iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "trg_bndbox": None}))
    report = evaluate(Offset(), request_)
    assert report["headline"]["reference"] == "img"
    assert "bbox" not in {row["reference"] for row in report["scores"]}


def test_markdown_labels_every_protocol(report, request_):
    text = (request_.output / "report.md").read_text()
    for words in ("bbox-kp-padded | anisotropic | point", "| cat | 3 | 9 |", report["fingerprint"], '"offset"'):
        assert words in text


def test_table_on_the_terminal_labels_every_protocol(report):
    console = Console(width=200, record=True, file=io.StringIO())
    print_report(report, console)
    text = console.export_text()
    assert text.count("anisotropic") == 4 * 4
    assert "100.0 (100.0-100.0)" in text


def test_fingerprint_changes_with_annotations_and_pixels_but_not_with_the_place(root, request_, tmp_path):
    from mambamatcher.datasets.benchmarks import read_pairs
    from mambamatcher.datasets.records import fingerprint
    from tests.datasets import releases

    before = fingerprint(read_pairs("spair", "test", root).pairs)
    moved = (root / "SPair-71k").rename(tmp_path / "elsewhere")
    assert fingerprint(read_pairs("spair", "test", moved).pairs) == before
    releases.write_picture(moved / "JPEGImages" / "cat" / "one.jpg", (60, 40), seed=77)
    assert fingerprint(read_pairs("spair", "test", moved).pairs) != before


def test_gallery_needs_nothing_from_elsewhere(report, request_):
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attributes):
            links.extend(value for key, value in attributes if key in ("src", "href"))

    page = (request_.output / GALLERY).read_text()
    Links().feed(page)
    assert len(links) == 10
    assert all(link.startswith("data:image/jpeg;base64,") for link in links)
    assert "http" not in page
    assert "000000-one-two:cat" in page


def test_reports_that_are_none_are_refused(tmp_path):
    path = tmp_path / "report.json"
    for content in ("{", "{}", "[]"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"report\.json"):
            read_report(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_report(tmp_path / "none.json")
