"""Results of trained rows: PCK with intervals, and the significance of the difference between two rows."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mambamatcher.evaluation.compare import RESAMPLES, sign_flip_test
from mambamatcher.evaluation.score import bootstrap_weights
from mambamatcher.paper.ablations import Outcome
from mambamatcher.paper.output import MEASURED, Cell, Row
from mambamatcher.paper.trained_rows import TrainedRow


def outcome_rows(row: TrainedRow, outcomes: Sequence[Outcome]) -> list[Row]:
    """Return one row per evaluation: the mean over seeds with a 95 % interval over pairs."""
    lines = []
    for where, first in outcomes[0]["evaluations"].items():
        shares = pair_shares(outcomes, where)
        low, high = np.quantile(_resampled(shares), [0.025, 0.975], axis=0)
        cells = tuple(
            Cell(value=100 * value, low=100 * bottom, high=100 * top)
            for value, bottom, top in zip(shares.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
        )
        by_seed = [100 * pair_shares([each], where)[:, 1].mean() for each in outcomes]
        seeds = "" if len(outcomes) == 1 else f" (seeds {', '.join(f'{value:.1f}' for value in by_seed)} at 0.10)"
        protocol = f"{where}, {first['protocol']}, {first['pairs']} pairs; {outcomes[0]['steps']} steps of training"
        lines.append(Row(name=row.paper + seeds, origin=MEASURED, protocol=protocol, cells=cells))
    return lines


def pair_shares(outcomes: Sequence[Outcome], where: str) -> Float[np.ndarray, "pair alpha"]:
    """Return the share of correct keypoints of each pair, averaged over seeds."""
    found = [each["evaluations"][where] for each in outcomes]
    return np.mean([np.array(each["right"]) / np.array(each["keypoints"])[:, None] for each in found], axis=0)


def difference_line(first: tuple[str, list[Outcome]], second: tuple[str, list[Outcome]], where: str) -> str:
    """Describe how much better the second row is than the first at PCK@0.10, compared pair by pair.

    Only seeds that both rows have are compared. Runs of one seed see the same pairs in the same order, and seeds often
    differ more than rows do.
    """
    shared = min(len(first[1]), len(second[1]))
    change = (pair_shares(second[1][:shared], where) - pair_shares(first[1][:shared], where))[:, 1:2]
    low, high = 100 * np.quantile(_resampled(change), [0.025, 0.975])
    p = sign_flip_test(change, RESAMPLES, 0)[0]
    by_seed = [
        f"{100 * (pair_shares([ours], where) - pair_shares([theirs], where))[:, 1].mean():+.2f}"
        for theirs, ours in zip(first[1], second[1], strict=False)
    ]
    return (
        f"{where}: {second[0]} against {first[0]}: {100 * change.mean():+.2f} points of PCK@0.10 (95 % interval "
        f"{low:+.2f} to {high:+.2f} over pairs, p = {p:.2g}; by seed {', '.join(by_seed)})."
    )


def _resampled(values: np.ndarray) -> np.ndarray:
    return bootstrap_weights(len(values), RESAMPLES, 0) @ values / len(values)
