"""PCK against values worked out by hand, and against the mistakes other evaluators are known for.

Each test of a mistake states the wrong value beside the right one.
"""

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.evaluation.pck import REFERENCES, Targets, averages, reference_size, relative_errors


def targets(points, size=(200.0, 100.0), box=(0.0, 0.0, 100.0, 50.0), keypoints=None):
    """Describe one pair whose points are padded with zeros to `keypoints`."""
    count = len(points)
    return Targets(
        points=np.pad(np.array([points]), ((0, 0), (0, (keypoints or count) - count), (0, 0))),
        present=np.arange(keypoints or count)[None] < count,
        size=np.array([size]),
        box=np.array([box or (0.0,) * 4]),
        box_present=np.array([box is not None]),
    )


def moved(truth, *offsets):
    """Predict every true point moved by an offset."""
    predicted = truth.points.copy()
    predicted[:, : len(offsets)] += offsets
    return predicted


def share(predicted, truth, alpha, reference, scale="isotropic"):
    correct = relative_errors(predicted, truth, reference, scale) <= alpha
    return (correct & truth.present).sum().item() / truth.present.sum().item()


def test_reference_sizes_by_hand():
    truth = targets([(10.0, 10.0), (70.0, 20.0)], size=(200.0, 100.0), box=(5.0, 5.0, 85.0, 45.0))
    sizes = {reference: reference_size(truth, reference).item() for reference in REFERENCES}
    assert sizes == {"img": 200, "bbox": 80, "bbox-kp": 60, "bbox-kp-padded": 72}
    # both axes scaled to 256: x by 1.28, y by 2.56
    sizes = {reference: reference_size(truth, reference, "anisotropic").item() for reference in REFERENCES}
    assert sizes == pytest.approx({"img": 256, "bbox": 102.4, "bbox-kp": 76.8, "bbox-kp-padded": 70 * 1.28 + 2})


def test_mistake_padding_measured_as_if_it_were_keypoints():
    """dhpf#3, CATs#6: the box around keypoints and their padding of -2 is larger, so PF-WILLOW gains ten points."""
    truth = targets([(100.0, 40.0), (160.0, 60.0)], size=(256.0, 256.0), box=None, keypoints=40)
    predicted = moved(truth, (5.0, 0.0), (0.0, 9.0))
    wrong = share(predicted, truth, 0.1, "bbox-kp-padded", "anisotropic")  # threshold 0.1 * (160 + 2) = 16.2
    right = share(predicted, truth, 0.1, "bbox-kp", "anisotropic")  # threshold 0.1 * (160 - 100) = 6
    assert (wrong, right) == (1.0, 0.5)


def test_mistake_padded_keypoints_counted_as_correct():
    truth = targets([(10.0, 10.0), (60.0, 30.0)], keypoints=40)
    predicted = moved(truth, (50.0, 0.0), (0.0, 0.0))
    wrong = (relative_errors(predicted, truth, "bbox") <= 0.1).mean().item()  # 39 of 40: padding agrees
    assert (wrong, share(predicted, truth, 0.1, "bbox")) == (39 / 40, 0.5)


def test_mistake_transfer_in_the_wrong_direction():
    """CATs#5: transferring target points to the source and measuring there uses the source's box."""
    source = targets([(10.0, 10.0)], box=(0.0, 0.0, 150.0, 90.0))
    target = targets([(40.0, 40.0)], box=(20.0, 20.0, 60.0, 60.0))
    offset = (8.0, 0.0)
    wrong = share(moved(source, offset), source, 0.1, "bbox")  # threshold 15
    right = share(moved(target, offset), target, 0.1, "bbox")  # threshold 4
    assert (wrong, right) == (1.0, 0.0)


def test_mistake_per_point_reported_as_per_image():
    correct = np.array([[9], [0]])
    result = averages(correct, np.array([9, 1]), np.array([0, 0]), ["cat"])
    assert (result["point"].item(), result["image"].item()) == (0.9, 0.5)


def test_mistake_thresholds_taken_after_squaring_the_image():
    """CHM, TransforMatcher: in the square the short axis is stretched, and distances and box with it."""
    truth = targets([(50.0, 25.0)], size=(200.0, 100.0), box=(0.0, 0.0, 100.0, 50.0))
    predicted = moved(truth, (0.0, 9.0))
    right = share(predicted, truth, 0.1, "bbox")  # 9 <= 0.1 * 100
    squared = share(predicted, truth, 0.1, "bbox", "anisotropic")  # 9 * 2.56 > 0.1 * 128
    assert (squared, right) == (0.0, 1.0)


def test_mistake_points_left_in_the_square_while_the_box_is_in_original_pixels():
    truth = targets([(150.0, 25.0)], size=(200.0, 100.0), box=(0.0, 0.0, 100.0, 50.0))
    in_square = moved(truth, (8.0, 0.0)) * np.array([256 / 200, 256 / 100])
    wrong = share(in_square, truth, 0.1, "bbox")
    assert (wrong, share(moved(truth, (8.0, 0.0)), truth, 0.1, "bbox")) == (0.0, 1.0)


def test_mistake_box_clipped_to_the_image():
    box = (-2.0, 0.0, 102.0, 50.0)  # as annotated, a little outside an image 100 wide
    clipped = targets([(50.0, 25.0)], size=(100.0, 60.0), box=(0.0, 0.0, 100.0, 50.0))
    truth = targets([(50.0, 25.0)], size=(100.0, 60.0), box=box)
    predicted = moved(truth, (10.3, 0.0))
    assert (share(predicted, clipped, 0.1, "bbox"), share(predicted, truth, 0.1, "bbox")) == (0.0, 1.0)


def test_mistake_less_than_instead_of_at_most():
    truth = targets([(50.0, 25.0)], box=(0.0, 0.0, 50.0, 20.0))
    errors = relative_errors(moved(truth, (3.0, 4.0)), truth, "bbox")  # exactly 0.1 * 50 away
    assert (bool(errors < 0.1), bool(errors <= 0.1)) == (False, True)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.07, 0.1, 0.15, 0.2, 0.29])
@pytest.mark.parametrize("side", [30.0, 100.0, 300.0, 700.0])
def test_distance_of_exactly_the_threshold_is_correct_whatever_the_numbers(alpha, side):
    """0.29 * 100 is 28.999999999999996 in floating point: comparing with the product would refuse a distance of 29."""
    truth = targets([(0.0, 0.0)], box=(0.0, 0.0, side, side / 2))
    assert share(moved(truth, (round(alpha * side, 6), 0.0)), truth, alpha, "bbox") == 1.0


def test_mistake_pf_pascal_scaled_twice():
    """Keypoints of PF-PASCAL are already those of the 300 px images; scaling them from 500 px again moves them."""
    truth = targets([(200.0, 100.0)], size=(300.0, 225.0))
    predicted = moved(truth, (6.0, 0.0))
    twice = targets([(120.0, 60.0)], size=(300.0, 225.0))  # times 300 / 500 again
    assert (share(predicted, twice, 0.1, "img"), share(predicted, truth, 0.1, "img")) == (0.0, 1.0)


def test_single_keypoint_has_no_extent_and_only_an_exact_hit_is_correct():
    truth = targets([(10.0, 10.0)])
    assert share(moved(truth, (0.0, 0.0)), truth, 0.1, "bbox-kp") == 1.0
    assert share(moved(truth, (0.1, 0.0)), truth, 0.1, "bbox-kp") == 0.0


def test_boxes_are_not_invented():
    truth = targets([(10.0, 10.0)], box=None)
    with pytest.raises(InputError, match="bbox-kp or img"):
        relative_errors(truth.points, truth, "bbox")
