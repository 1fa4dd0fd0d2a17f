"""Point, prediction and data files made to mislead a reader, a spreadsheet or a viewer of reports."""

import csv
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import markdown as renderer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mambamatcher.cli.match import print_table
from mambamatcher.datasets.reading import read_csv, read_json
from mambamatcher.errors import InputError
from mambamatcher.evaluation.markdown import markdown
from mambamatcher.evaluation.predictions import read_predictions
from mambamatcher.io.points import PointSet, make_points, read_annotations, to_csv, write_points

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "'=1", "''=1", "=cmd|'/C calc'!A0"]


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_of_text_is_a_formula(name):
    text = to_csv({name: make_points([(-1.5, 2)], [name])})
    cells = list(csv.reader(text.splitlines(keepends=True)))[1]
    for cell in cells[:2]:
        assert cell.startswith("'")
    assert cells[2:4] == ["-1.5", "2.0"]  # numbers stay numbers


@pytest.mark.parametrize("name", ["-1", "-1.5", "'tis", "a=b", "nose-tip", "", "1e5"])
def test_harmless_names_are_written_as_they_are(name):
    assert next(csv.reader(to_csv({"a": make_points([(1, 2)], [name])}).splitlines()[1:]))[1] == name


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
RISKY = st.text(st.sampled_from("=+-@'\"\t\r\n ,;a1."), max_size=6)
UNDECODABLE = st.binary(max_size=4).map(lambda name: name.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
NAME = TEXT | RISKY | UNDECODABLE


@settings(max_examples=60)
@given(st.lists(NAME, min_size=2, max_size=2, unique=True), NAME.filter(bool))
def test_whatever_is_written_is_read_again(names, image):
    given = make_points([(-1.5, 2), (3, 4)], names, [2, 1])
    with TemporaryDirectory() as folder:
        for suffix in ("csv", "json"):
            path = Path(folder) / f"points.{suffix}"
            write_points(path, {image: given})
            found = read_annotations(path)
            assert list(found) == [image]
            assert found[image].names == given.names
            np.testing.assert_array_equal(found[image].points, given.points)
            np.testing.assert_array_equal(found[image].visibility, given.visibility)


def test_spaces_beside_the_columns_of_others_are_not_part_of_names(tmp_path):
    (tmp_path / "a.csv").write_text("x, y, name\n1, 2, nose\n")
    assert read_annotations(tmp_path / "a.csv")[None].names == ("nose",)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "x,y,name,name\n1,2,a,b\n", "the column 'name' appears more than once"),
        ("a.csv", "x,y,X\n1,2,3\n", "the column 'x' appears more than once"),
        ("a.json", '{"points": [[1, 2]], "points": [[3, 4]]}', "the key 'points' appears more than once"),
        (
            "a.json",
            '{"images": {"a": {"points": [[1, 2]]}, "a": {"points": []}}}',
            "the key 'a' appears more than once",
        ),
    ],
)
def test_points_that_could_be_read_in_two_ways_are_refused(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_annotations(tmp_path / name)
    assert name in str(caught.value)


def test_data_that_could_be_read_in_two_ways_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("source,target,source\na,b,c\n")
    with pytest.raises(InputError, match=r"a\.csv: the column 'source' appears more than once"):
        read_csv(tmp_path / "a.csv")
    (tmp_path / "a.json").write_text('{"a": {"kps": 1, "kps": 2}}')
    with pytest.raises(InputError, match=r"a\.json .* the key 'kps' appears more than once"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.jsonl").write_text('{"format": "x", "format": "y"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl.* the key 'format' appears more than once"):
        read_predictions(tmp_path / "a.jsonl")


ATTACK = "<script>alert(1)</script> ![x](http://evil/x) | `a` **b** \n# c \\ & \ud800"


TAGS = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


def test_text_of_others_is_neither_html_nor_markdown_in_a_report():
    values = [{"value": 0.5, "low": 0.4, "high": 0.6}]
    report = {
        **dict.fromkeys(("model", "dataset", "split", "direction", "fingerprint"), ATTACK),
        **{"pairs": 1, "points": 1, "alphas": [0.1], "seconds_per_pair": None, "left_right": None},
        "headline": {"reference": "image", "scale": "isotropic"},
        "scores": [{"reference": "image", "scale": "isotropic", "average": "image", "values": values}],
        "categories": {ATTACK: {"pairs": 1, "points": 1, "values": values}},
        "slices": [{"grade": ATTACK, "level": ATTACK, "pairs": 1, "image": [0.5]}],
        "skipped": [ATTACK],
        "configuration": {"weights": ATTACK},
    }
    text = markdown(report)
    text.encode("utf-8")  # can be written
    body, configuration = text.split("## Configuration")
    assert json.loads(configuration.split("```")[1].removeprefix("json"))  # a code block, which shows HTML as it is
    page = renderer.markdown(body, extensions=["tables"])
    assert set(re.findall(r"<(\w+)", page)) == {
        *["h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"]
    }
    assert page.count("&lt;script&gt;") == 5 + 1 + 2 + 1
    assert len(re.findall(r"<h[12]", page)) == 4  # title, categories, difficulty, skipped


def test_names_are_not_markup_on_the_terminal(capsys):
    class Result:
        matched, confidence, modes = np.array([True]), np.array([0.5]), None
        source_points = points = np.array([[1.0, 2.0]])

    print_table(Result(), ("[/red][link=http://evil]x",))
    assert "[/red]" in capsys.readouterr().out


def test_a_point_set_made_by_hand_is_masked_too():
    made = PointSet(points=np.zeros((1, 2)), names=("=1",), visibility=np.array([2]))
    assert "'=1" in to_csv({"a": made})
