"""`data verify` reports what is present, what is missing, and which images two splits share."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from mambamatcher.cli.data import app
from mambamatcher.datasets.verify import verify
from mambamatcher.errors import InputError
from tests.datasets import releases


def test_counts_are_held_against_the_published_ones(tmp_path):
    releases.write_pf_willow(tmp_path)
    (state,) = verify("pf-willow", tmp_path).splits
    assert (state.pairs, state.expected, state.images) == (1, 900, 2)
    assert not state.complete


def test_absent_splits_and_bad_images_are_told_apart(tmp_path):
    folder = releases.write_spair(tmp_path)
    releases.truncate(folder / "JPEGImages" / "cat" / "one.jpg")
    states = {state.split: state for state in verify("spair", tmp_path).splits}
    assert "trn.txt" in states["trn"].absent
    assert states["test"].absent is None
    assert "one.jpg" in states["test"].faults[0]


def test_images_shared_between_splits_are_found(tmp_path):
    releases.write_pf_pascal(tmp_path)
    assert verify("pf-pascal", tmp_path).shared_images == {"trn and val": 2, "trn and test": 2, "val and test": 2}


def test_voc_splits_share_nothing(tmp_path):
    releases.write_voc(tmp_path)
    assert verify("voc-keypoints", tmp_path).shared_images == {}


def test_command_prints_the_state_and_how_to_get_the_rest(tmp_path):
    releases.write_pf_pascal(tmp_path)
    result = CliRunner().invoke(app, ["verify", "--dataset", "pf-pascal", "--root", str(tmp_path)])
    assert result.exit_code == 0
    assert "trn and val share 2 images" in result.output
    assert "To get the rest: " in result.output


def test_command_speaks_json(tmp_path):
    releases.write_spair(tmp_path)
    result = CliRunner().invoke(app, ["verify", "--dataset", "spair", "--root", str(tmp_path), "--json"])
    found = json.loads(result.output)
    assert found["complete"] is False
    assert {state["split"]: state["pairs"] for state in found["splits"]}["test"] == 1


def test_command_fails_when_nothing_is_here(tmp_path):
    result = CliRunner().invoke(app, ["verify", "--dataset", "spair", "--root", str(tmp_path)])
    assert result.exit_code == 1
    shutil.rmtree(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        verify("spair", tmp_path)
