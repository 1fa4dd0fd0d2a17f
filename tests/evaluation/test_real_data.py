"""What an independent script measured on the real photographs, measured again by the evaluator."""

from pathlib import Path

import pytest

from mambamatcher import Matcher
from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.predictors import MatcherPredictor

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not (DATA / "SPair-71k").is_dir(), reason="the SPair-71k validation pairs are not here")
def test_nearest_neighbours_on_spair_come_within_a_point_of_the_independent_measurement(tmp_path):
    request = Request(dataset="spair", split="val", output=tmp_path, root=DATA)
    report = evaluate(MatcherPredictor("nearest", Matcher.from_preset("nearest")), request)
    (row,) = [
        row
        for row in report["scores"]
        if (row["reference"], row["scale"], row["average"]) == ("bbox", "isotropic", "image")
    ]
    assert report["pairs"] == 360
    assert 100 * row["values"][report["alphas"].index(0.10)]["value"] == pytest.approx(32.2, abs=1.0)
