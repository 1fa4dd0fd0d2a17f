"""Is one really better? Paired, so that a small but steady gain is seen and noise is not."""

import numpy as np
import pytest
from scipy.stats import binomtest

from mambamatcher.errors import InputError
from mambamatcher.evaluation.compare import compare, mcnemar_test, sign_flip_test
from mambamatcher.evaluation.predictions import Header, Predictions
from mambamatcher.evaluation.report import make_report, read_report
from tests.evaluation.test_score import synthetic_records


def report(records, **changes):
    stamps = {"model": "m", "configuration": {}, "dataset": "spair", "split": "val", "reference": "bbox"}
    header = Header(**{**stamps, "fingerprint": "same", "pairs": len(records), **changes})
    return make_report(Predictions(header, records))


def better(records, share, seed=1):
    """Put right a share of all predicted points."""
    generator = np.random.default_rng(seed)
    return [
        {
            **record,
            "predicted": [
                truth if generator.random() < share else found
                for truth, found in zip(record["target_points"], record["predicted"], strict=True)
            ],
        }
        for record in records
    ]


def overall(rows, alpha=0.1):
    return next(row for row in rows if row.category == "all" and row.alpha == alpha)


def test_same_predictions_do_not_differ():
    records = synthetic_records(60)
    row = overall(compare(report(records), report(records)))
    assert (row.difference, row.p_image, row.p_point, row.only_first, row.only_second) == (0, 1, 1, 0, 0)
    assert "one and two do not differ significantly" in row.words("one", "two")


def test_real_gain_is_found_and_said_in_words():
    records = synthetic_records(300)
    rows = compare(report(records), report(better(records, 0.1)))
    row = overall(rows)
    assert row.difference > 0
    assert row.low > 0
    assert row.p_image < 0.01
    assert row.p_point < 0.01
    assert row.only_first == 0
    assert row.words("one", "two").startswith("Over all pairs, two is better than one: ")
    back = overall(compare(report(better(records, 0.1)), report(records)))
    assert back.difference == -row.difference
    # whichever is given first, the sentence, the values and their signs are those of the better one
    assert back.words("two", "one") == row.words("one", "two")
    assert f", {100 * row.difference:+.1f} points (95 % interval {100 * row.low:+.1f} to" in row.words("one", "two")
    assert {each.category for each in rows} == {"all", *(f"class-{k:02d}" for k in range(18))}
    assert {each.alpha for each in rows} == {0.01, 0.05, 0.1, 0.15, 0.2}


def test_noise_is_not_called_a_gain():
    first = synthetic_records(200)
    second = [{**a, "predicted": (2 * np.array(a["target_points"]) - a["predicted"]).tolist()} for a in first]
    generator = np.random.default_rng(5)
    mixed = [a if generator.random() < 0.5 else b for a, b in zip(first, second, strict=True)]
    assert overall(compare(report(first), report(mixed))).p_image > 0.05


def test_mcnemar_is_the_exact_binomial_test():
    assert mcnemar_test(0, 0) == 1
    assert mcnemar_test(1, 5) == pytest.approx(2 * (1 + 6) / 2**6)
    assert mcnemar_test(5, 1) == mcnemar_test(1, 5)
    for counts in ((3, 3), (2, 3), (40, 61), (0, 200), (4_000, 4_150)):
        assert mcnemar_test(*counts) == pytest.approx(binomtest(counts[0], sum(counts)).pvalue, rel=1e-9), counts


def test_sign_flips_reach_the_exact_probability():
    differences = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0], [0.4, 0.0]])
    p = sign_flip_test(differences, 4000, seed=0)
    assert p[0] == pytest.approx(2 / 16, abs=0.02)  # all signs alike, either way
    assert p[1] == 1


def test_category_tests_are_corrected_for_their_number():
    records = synthetic_records(180)
    rows = compare(report(records), report(better(records, 0.3)))
    whole = overall(rows)
    single = [row.p_image for row in rows if row.alpha == 0.1 and row.category != "all"]
    assert whole.p_image < min(single)
    assert max(single) <= 1


def test_pairs_only_one_report_has_are_left_out():
    records = synthetic_records(50)
    assert overall(compare(report(records), report(records[:20]))).pairs == 20


def test_reports_on_other_data_are_refused():
    records = synthetic_records(5)
    with pytest.raises(InputError, match="fingerprint differ"):
        compare(report(records), report(records, fingerprint="other"))


def test_a_missing_report_is_called_missing_and_not_malformed(tmp_path):
    with pytest.raises(InputError, match=r"gone\.json cannot be read: No such file or directory$"):
        read_report(tmp_path / "gone.json")
