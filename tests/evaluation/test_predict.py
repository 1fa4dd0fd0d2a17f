"""Predictions are saved pair by pair; a stopped run loses nothing and repeats nothing."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.evaluation.evaluate import PREDICTIONS, Request, _chosen, evaluate, evaluation_job, rescore
from mambamatcher.evaluation.predict import Predictor, complete
from mambamatcher.evaluation.predictions import Header, read_predictions, record
from mambamatcher.jobs.engines import LOCAL
from mambamatcher.jobs.job import run
from tests.evaluation.conftest import Offset, Stopping

HEADER = Header(model="m", configuration={}, dataset="spair", split="test", reference="bbox", fingerprint="f", pairs=2)


def names(path):
    return [record["pair"] for record in read_predictions(path).records]


def test_everything_scoring_needs_is_in_the_file(pairs, request_):
    evaluate(Offset((1.0, 0.0)), request_)
    saved = read_predictions(request_.output / PREDICTIONS)
    assert saved.header.dataset == "spair"
    assert saved.header.direction == "source to target"
    assert saved.header.configuration == {"offset": [1.0, 0.0]}
    first = saved.records[0]
    assert first["source_points"] == [[10, 11], [20, 21], [30, 31]]
    assert first["target_points"] == [[12, 13], [22, 23], [32, 33]]
    assert first["predicted"] == [[13, 13], [23, 23], [33, 33]]
    assert first["mirrored_points"] == [[22, 23], [12, 13], None]
    assert first["confidence"] == [0.5, 0.5, 0.5]
    assert first["target"]["bbox"] == [5, 10, 45, 70]
    assert first["target"]["size"] == [50, 80]
    assert first["variation"]["viewpoint"] == 0
    assert first["seconds"] >= 0


@pytest.mark.parametrize("after", [0, 1, 4])
def test_stopped_run_resumes_without_losing_or_repeating_a_pair(pairs, request_, after):
    with pytest.raises(KeyboardInterrupt):
        evaluate(Stopping(after), request_)
    assert len(names(request_.output / PREDICTIONS)) == after
    again = Offset()
    report = evaluate(replace_name(again), request_)
    assert again.calls == 5 - after
    assert names(request_.output / PREDICTIONS) == [pair.name for pair in pairs]
    assert report["pairs"] == 5


def replace_name(predictor):
    predictor.configuration = Stopping(0).configuration
    return predictor


def test_file_torn_at_any_byte_is_mended(pairs, request_):
    evaluate(Offset(), request_)
    path = request_.output / PREDICTIONS
    whole = path.read_bytes()
    without_time = [{**record, "seconds": None} for record in read_predictions(path).records]
    for cut in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        evaluate(Offset(), request_)
        assert [{**record, "seconds": None} for record in read_predictions(path).records] == without_time


def test_predictions_in_another_order_are_reported_in_the_order_of_the_pairs(pairs, request_):
    whole = evaluate(Offset(), request_)
    path = request_.output / PREDICTIONS
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text(header + "".join(reversed(lines)))  # as workers may leave it that are killed
    assert evaluate(Offset(), replace(request_, limit=2))["errors"].keys() == {pair.name for pair in pairs[:2]}
    assert evaluate(Offset(), request_) == whole
    assert names(path) == [pair.name for pair in pairs]


def test_finished_run_predicts_nothing_again(request_):
    evaluate(Offset(), request_)
    again = Offset()
    evaluate(again, request_)
    assert again.calls == 0


def test_limited_run_can_be_resumed_without_its_limit(request_):
    assert evaluate(Offset(), replace(request_, limit=2))["pairs"] == 2
    rest = Offset()
    assert evaluate(rest, request_)["pairs"] == 5
    assert rest.calls == 3
    assert evaluate(Offset(), replace(request_, limit=2))["pairs"] == 2


def test_another_model_does_not_resume_in_the_same_file(request_):
    evaluate(Offset(), request_)
    with pytest.raises(InputError, match=r"configuration\.offset was \[0\.0, 0\.0\], now \[3\.0, 0\.0\]"):
        evaluate(Offset((3.0, 0.0)), request_)
    report = evaluate(Offset((3.0, 0.0)), replace(request_, overwrite=True))
    assert report["configuration"] == {"offset": [3.0, 0.0]}


def test_damaged_line_in_the_middle_is_named(request_):
    evaluate(Offset(), request_)
    path = request_.output / PREDICTIONS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2][:30] + "\n", *lines[3:]]))
    with pytest.raises(InputError, match=r"predictions\.jsonl: entry 2 is not JSON"):
        read_predictions(path)


def test_nothing_is_written_when_the_data_is_bad(root, request_):
    (root / "SPair-71k" / "JPEGImages" / "dog" / "one.jpg").unlink()
    with pytest.raises(InputError, match=r"2 bad items.*one\.jpg"):
        evaluate(Offset(), request_)
    assert not request_.output.exists()
    report = evaluate(Offset(), replace(request_, skip_bad=True))
    assert report["pairs"] == 3
    assert len(report["skipped"]) == 2
    assert "one.jpg" in (request_.output / "report.md").read_text()


def test_predictor_that_answers_in_the_wrong_shape_is_told(pairs):
    with pytest.raises(InputError, match="3 points were asked for"):
        record(pairs[0], np.zeros((2, 2)), None, None)
    with pytest.raises(InputError, match="confidence must hold 3"):
        record(pairs[0], np.zeros((3, 2)), np.zeros(2), None)
    assert isinstance(Offset(), Predictor)


def test_answer_that_is_no_number_counts_as_wrong(pairs, request_):
    class Lost(Offset):
        def predict_points(self, source, target, points):
            found, confidence = super().predict_points(source, target, points)
            found[0] = np.nan
            return found, confidence

    report = evaluate(Lost(), request_)
    assert report["scores"][0]["values"][2]["value"] == pytest.approx(2 / 3)


def test_predictions_made_elsewhere_are_joined_by_pair(pairs, request_, tmp_path):
    path = tmp_path / "theirs.jsonl"
    lines = [{"pair": pair.name, "predicted": [*pair.points()[1].tolist()[:2], None]} for pair in reversed(pairs)]
    path.write_text("\n".join(map(json.dumps, lines)))
    report = rescore(path, request_)
    assert report["model"] == "theirs"
    assert report["scores"][0]["values"][0]["value"] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="1 pairs have no prediction"):
        complete({line["pair"]: line for line in lines[1:]}, pairs)
    with pytest.raises(InputError, match="malformed"):
        complete({pair.name: {"predicted": "nowhere"} for pair in pairs}, pairs)


def test_saved_predictions_are_scored_again_without_the_data(root, request_):
    evaluate(Offset((1.0, 0.0)), request_)
    (root / "SPair-71k").rename(root / "gone")
    again = rescore(
        request_.output / PREDICTIONS, replace(request_, alphas=(0.1, 0.3), output=request_.output / "again")
    )
    assert again["alphas"] == [0.1, 0.3]
    assert again["scores"][0]["values"][0]["value"] == 1.0


def test_scoring_again_replaces_no_report_unless_asked(request_):
    evaluate(Offset((1.0, 0.0)), request_)
    before = (request_.output / "report.json").read_bytes()
    again = replace(request_, alphas=(0.1, 0.3))
    with pytest.raises(InputError, match=r"report\.json exists already"):
        rescore(request_.output / PREDICTIONS, again)
    assert (request_.output / "report.json").read_bytes() == before
    assert rescore(request_.output / PREDICTIONS, replace(again, overwrite=True))["alphas"] == [0.1, 0.3]


def test_overwriting_an_evaluation_leaves_the_shards_of_another_job_alone(request_):
    shard = request_.output / "parts" / "part-000000.jsonl"
    shard.parent.mkdir(parents=True)
    shard.write_text("{}")
    evaluate(Offset(), replace(request_, overwrite=True))
    assert shard.read_text() == "{}"


def test_saved_predictions_are_not_taken_for_those_of_another_split(request_):
    evaluate(Offset(), request_)
    with pytest.raises(InputError, match="for spair test, not for spair val"):
        rescore(request_.output / PREDICTIONS, replace(request_, split="val", output=request_.output / "again"))


def test_pairs_that_cannot_be_told_apart_are_refused(pairs, request_):
    header = replace(HEADER, dataset="mine", split="own")
    with pytest.raises(InputError, match="mine own have the same name"):
        run(evaluation_job(Offset(), [pairs[0], pairs[0]], header, request_), LOCAL)


@pytest.mark.parametrize("name", ["report.json", "report.md", "worst.html", PREDICTIONS])
def test_files_of_the_users_own_are_kept_until_overwriting_is_asked_for(request_, name):
    request_.output.mkdir()
    own = request_.output / name
    own.write_text('{"my": "notes"')
    with pytest.raises(InputError, match=name):
        evaluate(Offset(), request_)
    assert own.read_text() == '{"my": "notes"'
    assert evaluate(Offset(), replace(request_, overwrite=True))["pairs"] == 5


def test_an_output_that_is_a_file_and_lines_that_are_no_predictions_are_one_sentence(request_):
    request_.output.write_text("mine")
    with pytest.raises(InputError, match="as a folder"):
        evaluate(Offset(), request_)
    request_.output.unlink()
    request_.output.mkdir()
    (request_.output / PREDICTIONS).write_text("[1]\n")
    with pytest.raises(InputError, match="line 1 is not a result"):
        evaluate(Offset(), request_)


@pytest.mark.parametrize("key", ["source_points", "target_points"])
def test_a_saved_prediction_without_an_asked_point_is_refused_by_its_number(request_, key):
    evaluate(Offset(), request_)
    path = request_.output / PREDICTIONS
    header, first, second, *rest = path.read_text().splitlines()
    damaged = json.loads(second)
    damaged[key][0] = None
    path.write_text("\n".join([header, first, json.dumps(damaged), *rest, ""]))
    with pytest.raises(InputError, match=f"prediction 2: {key} must be a list, got None"):
        evaluate(Offset(), request_)


def test_a_sample_is_spread_over_the_categories_and_a_larger_one_contains_it():
    categories = ["aeroplane"] * 40 + ["bird"] * 3 + ["cat"] * 10
    samples = [_chosen(categories, Request(dataset="d", split="s", output=Path(), sample=n)) for n in range(1, 54)]
    assert [len(each) for each in samples] == list(range(1, 54))
    assert all(each == sorted(each) for each in samples)
    assert all(set(a) < set(b) for a, b in pairwise(samples))
    assert Counter(categories[index] for index in samples[8]) == {"aeroplane": 3, "bird": 3, "cat": 3}
    assert Counter(categories[index] for index in samples[19]) == {"aeroplane": 9, "bird": 3, "cat": 8}
    assert samples[5] != [0, 1, 40, 41, 43, 44]  # not the first ones


def test_the_first_pairs_are_still_the_first_pairs():
    categories = ["aeroplane"] * 40 + ["bird"] * 3
    assert _chosen(categories, Request(dataset="d", split="s", output=Path(), limit=5)) == [0, 1, 2, 3, 4]
