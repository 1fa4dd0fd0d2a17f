"""PCK against values worked out by hand, and against the mistakes other evaluators are known for.

Each test of a mistake states the wrong value beside the right one.
"""

import multiprocessing
import socket

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.evaluation.metric import PCK
from mambamatcher.evaluation.pck import ALPHAS, REFERENCES, SCALES, Targets, averages, reference_size, relative_errors


def targets(points, size=(200.0, 100.0), box=(0.0, 0.0, 100.0, 50.0), keypoints=None):
    """Describe one pair whose points are padded with zeros to `keypoints`."""
    points = torch.tensor([points], dtype=torch.float64)
    count = points.shape[1]
    padding = torch.zeros(1, (keypoints or count) - count, 2, dtype=torch.float64)
    return Targets(
        points=torch.cat([points, padding], dim=1),
        present=torch.arange(keypoints or count)[None] < count,
        size=torch.tensor([size]),
        box=torch.tensor([box or (0.0,) * 4]),
        box_present=torch.tensor([box is not None]),
    )


def moved(truth, *offsets):
    """Predict every true point moved by an offset."""
    offsets = torch.tensor([offsets], dtype=torch.float64)
    predicted = truth.points.clone()
    predicted[:, : offsets.shape[1]] += offsets
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
    wrong = (relative_errors(predicted, truth, "bbox") <= 0.1).double().mean().item()  # 39 of 40: padding agrees
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
    correct = torch.tensor([[9], [0]])
    result = averages(correct, torch.tensor([9, 1]), torch.tensor([0, 0]), ["cat"])
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
    in_square = moved(truth, (8.0, 0.0)) * torch.tensor([256 / 200, 256 / 100])
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


def test_unknown_protocols_say_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'bbox'"):
        PCK(1, ["cat"], "box")
    with pytest.raises(ConfigError, match="Did you mean 'isotropic'"):
        PCK(1, ["cat"], scale="isotrop")


def batch(pairs, seed=0):
    """Make random pairs of up to seven keypoints."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(pairs, 7, 2, generator=generator) * 90
    counts = torch.randint(1, 8, (pairs,), generator=generator)
    truth = Targets(
        points=points,
        present=torch.arange(7) < counts[:, None],
        size=torch.tensor([[120, 90]]).expand(pairs, 2),
        box=torch.tensor([[10.0, 10.0, 100.0, 80.0]]).expand(pairs, 4),
        box_present=torch.ones(pairs, dtype=torch.bool),
    )
    predicted = points + 12 * torch.randn(pairs, 7, 2, generator=generator)
    return predicted, truth, torch.arange(pairs), ["cat" if k % 3 else "dog" for k in range(pairs)]


def select(data, rows):
    predicted, truth, index, categories = data
    parts = {name: getattr(truth, name)[rows] for name in ("points", "present", "size", "box", "box_present")}
    return predicted[rows], Targets(**parts), index[rows], [categories[row] for row in rows]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("scale", SCALES)
def test_metric_agrees_with_a_plain_loop(reference, scale):
    predicted, truth, index, categories = batch(20)
    metric = PCK(20, ["cat", "dog"], reference, scale)
    metric.update(predicted, truth, index, categories)
    errors = relative_errors(predicted, truth, reference, scale)
    images, hits, total = [], 0, 0
    for row in range(20):
        kept = [errors[row, k].item() for k in range(7) if truth.present[row, k]]
        right = sum(error <= 0.1 for error in kept)
        images.append(right / len(kept))
        hits, total = hits + right, total + len(kept)
    result = metric.compute()
    assert result["image"][ALPHAS.index(0.1)].item() == pytest.approx(sum(images) / 20)
    assert result["point"][ALPHAS.index(0.1)].item() == pytest.approx(hits / total)
    cats = [value for value, name in zip(images, categories, strict=True) if name == "cat"]
    dogs = [value for value, name in zip(images, categories, strict=True) if name == "dog"]
    mean = (sum(cats) / len(cats) + sum(dogs) / len(dogs)) / 2
    assert result["category-image"][ALPHAS.index(0.1)].item() == pytest.approx(mean)


def test_pair_repeated_by_a_sampler_is_counted_once():
    data = batch(5)
    once, twice = PCK(5, ["cat", "dog"]), PCK(5, ["cat", "dog"])
    once.update(*data)
    twice.update(*data)
    twice.update(*select(data, [0, 3]))
    assert_close(twice.compute(), once.compute())


# what each of two processes measures: as a sampler that repeats pairs deals them out, and very unevenly
DEALS = (([0, 2, 4, 6, 8], [1, 3, 5, 7, 0]), (list(range(9)), []))


def measure(rank, port, queue):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    data = batch(9)
    for deal in DEALS:
        metric = PCK(9, ["cat", "dog"])
        for row in deal[rank]:
            metric.update(*select(data, [row]))
        queue.put({key: value.tolist() for key, value in metric.compute().items()})
    dist.destroy_process_group()


def test_two_processes_measure_what_one_does():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=measure, args=(rank, port, queue)) for rank in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=120) for _ in workers for _ in DEALS]
    for worker in workers:
        worker.join(timeout=60)
    alone = PCK(9, ["cat", "dog"])
    alone.update(*batch(9))
    expected = {key: pytest.approx(value.tolist()) for key, value in alone.compute().items()}
    assert results == [expected] * 4
