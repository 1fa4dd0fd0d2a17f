import json

import pytest
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.points import make_points
from mambamatcher.tools.corrections import (
    Correction,
    Corrections,
    Status,
    annotated,
    read_corrections,
    write_corrections,
)

REFERENCE = annotated(Image.new("RGB", (30, 20), "red"), make_points([(3, 4), (10.5, 19)], ["nose", 'a "tail"\n<b>']))
TARGETS = ["a.png", "=1+1 <i>\n'.png", "caf\udce9.png"]
IMAGES = {
    "=1+1 <i>\n'.png": Correction(Status.corrected, {"nose": (0.1, 1e-3), 'a "tail"\n<b>': None}),
    "caf\udce9.png": Correction(Status.accepted, {"nose": (3.0, 7.25)}),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corrections.json"
    write_corrections(path, Corrections((REFERENCE,), IMAGES))
    return path


def test_corrections_come_back_exactly_with_names_that_hold_quotes_newlines_and_html(file):
    assert read_corrections(file, [REFERENCE], TARGETS) == Corrections((REFERENCE,), IMAGES)


def test_corrections_replace_those_that_are_there_and_leave_no_other_file(file):
    write_corrections(file, Corrections((REFERENCE,), {}))
    assert read_corrections(file, [REFERENCE], []).images == {}
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.update(format="coco"), "format must be 'mambamatcher corrections'"),
        (lambda c: c.update(version=2), "version must be 1, got 2; another release"),
        (lambda c: c.pop("images"), "the field 'images' is missing"),
        (lambda c: c.update(images=[]), r"images must be an object, got \[\]"),
        (lambda c: c["images"].update({"a.png": 3}), r"images\['a.png'\] must be an object, got 3"),
        (lambda c: c["images"].update({"a.png": {"points": {}}}), r"images\['a.png'\]: the field 'status' is missing"),
        (
            lambda c: c["images"].update({"a.png": {"status": ["x"], "points": {}}}),
            r"images\['a.png'\].status must be accepted or corrected, got \['x'\]",
        ),
        (
            lambda c: c["images"].update({"a.png": {"status": "accepted", "points": {"nose": [1]}}}),
            r"images\['a.png'\].points\['nose'\] must hold 2 numbers",
        ),
        (
            lambda c: c["images"].update({"a.png": {"status": "accepted", "points": {"nose": [1, float("nan")]}}}),
            r"images\['a.png'\].points\['nose'\]: expected a finite number, got nan",
        ),
        (
            lambda c: c["images"].update({"a.png": {"status": "accepted", "points": {"ear": [1, 2]}}}),
            r"images\['a.png'\].points names 'ear', but the reference has",
        ),
        (
            lambda c: c["images"].update({"b.png": {"status": "accepted", "points": {}}}),
            "images names 'b.png', which is not among the 3 targets",
        ),
        (lambda c: c["references"].append(c["references"][0]), "made for 2 of them, and this run has 1"),
        (lambda c: c["references"][0].update(image="0"), r"references\[0\].image: it was made for another reference"),
        (
            lambda c: c["references"][0]["points"].update(nose=[3, 5]),
            r"references\[0\].points: .* 'nose' is at \(3, 5\), and this run has it at \(3, 4\)",
        ),
        (
            lambda c: c["references"][0]["points"].update(nose=None),
            r"references\[0\].points has a point without a place",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field_in_one_sentence(file, change, says):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=says) as caught:
        read_corrections(file, [REFERENCE], TARGETS)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b'{"format": ', b"\xff\xfe", b"[" * 100_000, b'{"a": 1, "a": 2}', b"", b"null"])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(InputError, match=r"c\.json"):
        read_corrections(tmp_path / "c.json", [REFERENCE], TARGETS)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read corrections from .*: No such file"):
        read_corrections(tmp_path / "c.json", [REFERENCE], TARGETS)


def test_a_reference_is_another_with_another_pixel_size_or_point():
    image, points = Image.new("RGB", (4, 3)), make_points([(1, 2)])
    other = image.copy()
    other.putpixel((0, 0), (1, 0, 0))
    all_different = [
        annotated(image, points),
        annotated(other, points),
        annotated(Image.new("RGB", (3, 4)), points),
        annotated(image, make_points([(1, 2.001)])),
    ]
    assert all(a != b for i, a in enumerate(all_different) for b in all_different[:i])
