"""Paired comparison of two reports on the same data: is one model significantly better?

Per image: a paired bootstrap interval and a sign-flip permutation test of the difference in mean PCK. Per point:
McNemar's exact test on the keypoints that only one of the two models gets right. The p-values of the categories are
Holm-corrected for multiple comparisons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.evaluation.report import Report
from mambamatcher.evaluation.score import bootstrap_weights

RESAMPLES = 2_000
LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """Comparison of the second report with the first at one alpha, over all pairs or one category.

    Attributes:
        category: Name of the category, or `all`.
        alpha: Threshold of PCK.
        pairs: Number of image pairs.
        points: Number of keypoints.
        first: PCK of the first report, per image, from 0 to 1.
        second: PCK of the second report, per image, from 0 to 1.
        low: Lower end of the 95 % interval of the difference.
        high: Upper end of the 95 % interval of the difference.
        p_image: p-value of the sign-flip test over images.
        only_first: Number of keypoints that only the first report has right.
        only_second: Number of keypoints that only the second report has right.
        p_point: p-value of McNemar's test over keypoints.
    """

    category: str
    alpha: float
    pairs: int
    points: int
    first: float
    second: float
    low: float
    high: float
    p_image: float
    only_first: int
    only_second: int
    p_point: float

    @property
    def difference(self) -> float:
        """PCK of the second report minus PCK of the first, per image."""
        return self.second - self.first

    def words(self, first: str, second: str) -> str:
        """Summarise the comparison in one sentence; `first` and `second` are the names of the models."""
        where = "Over all pairs" if self.category == "all" else f"On {self.category}"
        # the better one first, so that the sign of the difference agrees with the sentence
        swap = self.difference > 0
        values = (self.second, self.first) if swap else (self.first, self.second)
        low, high = (self.low, self.high) if swap else (-self.high, -self.low)
        interval = f"95 % interval {_signed(low)} to {_signed(high)}, p = {self.p_image:.2g}"
        change = (
            f"{100 * values[0]:.1f} against {100 * values[1]:.1f} at PCK@{self.alpha:g}, "
            f"{_signed(abs(self.difference))} points ({interval})"
        )
        higher, lower = (second, first) if swap else (first, second)
        if self.p_image > LEVEL:
            return f"{where}, {higher} and {lower} do not differ significantly: {change}."
        return f"{where}, {higher} is better than {lower}: {change}."


def compare(first: Report, second: Report, *, resamples: int = RESAMPLES, seed: int = 0) -> list[Comparison]:
    """Compare two reports at every alpha they share, over all pairs and per category.

    Args:
        first: Report of the first model.
        second: Report of the second model, on the same data and with the same headline protocol.
        resamples: Number of bootstrap resamples and of random sign flips.
        seed: Seed of both.

    Returns:
        For each alpha the comparison over all pairs, then one per category with Holm-corrected p-values.

    Raises:
        InputError: The reports differ in data, protocol or number of keypoints, or have no pair in common.
    """
    for key in ("dataset", "split", "fingerprint", "headline"):
        if first[key] != second[key]:
            raise InputError(f"the reports cannot be compared: their {key} differ, {first[key]!r} and {second[key]!r}")
    names = [name for name in first["errors"] if name in second["errors"]]
    if not names:
        raise InputError("the reports have no pair in common")
    errors = [[_array(report["errors"][name]["errors"]) for name in names] for report in (first, second)]
    for name, mine, theirs in zip(names, *errors, strict=True):
        if len(mine) != len(theirs):
            raise InputError(f"the reports have {len(mine)} and {len(theirs)} points for the pair {name!r}")
    categories = [first["errors"][name]["category"] for name in names]
    alphas = np.array([alpha for alpha in first["alphas"] if alpha in second["alphas"]])

    groups = {"all": list(range(len(names)))}
    for name in sorted(set(categories)):
        groups[name] = [row for row, category in enumerate(categories) if category == name]
    found = []
    for name, rows in groups.items():
        chosen = [[report[row][:, None] <= alphas for row in rows] for report in errors]
        found.append(_compare(name, alphas.tolist(), chosen[0], chosen[1], (resamples, seed)))
    return [row for each in zip(*found, strict=True) for row in (each[0], *_holm(each[1:]))]


def _compare(
    category: str,
    alphas: Sequence[float],
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    draws: tuple[int, int],
) -> list[Comparison]:
    """Compare one group of pairs; each array holds, per keypoint and alpha, whether the match is correct."""
    shares = np.array([[pair.mean(axis=0) for pair in report] for report in (first, second)])
    points = np.concatenate(first), np.concatenate(second)
    differences = shares[1] - shares[0]
    low, high = np.quantile(_bootstrap_means(differences, *draws), [0.025, 0.975], axis=0)
    p_image = sign_flip_test(differences, *draws)
    only_first, only_second = (points[0] & ~points[1]).sum(axis=0), (~points[0] & points[1]).sum(axis=0)
    return [
        Comparison(
            category=category,
            alpha=alpha,
            pairs=len(first),
            points=len(points[0]),
            first=float(shares[0, :, k].mean()),
            second=float(shares[1, :, k].mean()),
            low=float(low[k]),
            high=float(high[k]),
            p_image=float(p_image[k]),
            only_first=int(only_first[k]),
            only_second=int(only_second[k]),
            p_point=mcnemar_test(int(only_first[k]), int(only_second[k])),
        )
        for k, alpha in enumerate(alphas)
    ]


def sign_flip_test(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return the p-value of a paired two-sided sign-flip permutation test for each column.

    Args:
        differences: One row per pair and one column per alpha.
        resamples: Number of random sign flips.
        seed: Seed of the random signs.
    """
    generator = np.random.default_rng(seed)
    extreme = np.zeros(differences.shape[1])
    for size in _blocks(resamples, len(differences)):
        signs = generator.integers(2, size=(size, len(differences)), dtype=np.int8) * 2.0 - 1.0
        extreme += (np.abs(signs @ differences) >= np.abs(differences.sum(axis=0)) - 1e-9).sum(axis=0)
    # the observed signs count as one of the permutations, so p is never zero
    return (extreme + 1) / (resamples + 1)


def mcnemar_test(only_first: int, only_second: int) -> float:
    """Return the p-value of McNemar's exact two-sided test.

    Args:
        only_first: Number of keypoints that only the first model gets right.
        only_second: Number of keypoints that only the second model gets right.
    """
    total = only_first + only_second
    ways = tail = 1  # whole numbers: binomial coefficients and their sum
    for count in range(min(only_first, only_second)):
        ways = ways * (total - count) // (count + 1)
        tail += ways
    return min(1.0, 2 * tail / 2**total)  # two equal tails, which overlap where the counts are equal


def _bootstrap_means(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    weights = bootstrap_weights(len(differences), resamples, seed)
    return weights @ differences / len(differences)


def _blocks(resamples: int, length: int) -> list[int]:
    """Split the resamples into blocks of about four million numbers, to bound the memory."""
    block = max(1, 4_000_000 // length)
    return [min(block, resamples - done) for done in range(0, resamples, block)]


def _holm(rows: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p-values of the categories for multiple comparisons (Holm)."""
    corrected: dict[tuple[str, str], float] = {}
    for key in ("p_image", "p_point"):
        worst = 0.0
        for rank, row in enumerate(sorted(rows, key=lambda row: getattr(row, key))):
            worst = max(worst, min(1.0, (len(rows) - rank) * getattr(row, key)))
            corrected[row.category, key] = worst
    return [
        replace(row, p_image=corrected[row.category, "p_image"], p_point=corrected[row.category, "p_point"])
        for row in rows
    ]


def _signed(share: float) -> str:
    """Format a difference in percentage points; a rounded zero has no minus."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def _array(errors: Sequence[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in errors])
