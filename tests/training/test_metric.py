"""PCK as a metric of training: the same as a plain loop, and the same in one process and in two."""

import multiprocessing
import socket

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.evaluation.pck import ALPHAS, REFERENCES, SCALES, Targets, relative_errors
from mambamatcher.training.metric import PCK


def test_unknown_protocols_say_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'bbox'"):
        PCK(1, ["cat"], "box")
    with pytest.raises(ConfigError, match="Did you mean 'isotropic'"):
        PCK(1, ["cat"], scale="isotrop")


def batch(pairs, seed=0):
    """Make random pairs of up to seven keypoints."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(0, 90, (pairs, 7, 2))
    counts = generator.integers(1, 8, pairs)
    truth = Targets(
        points=points,
        present=np.arange(7) < counts[:, None],
        size=np.tile([120, 90], (pairs, 1)),
        box=np.tile([10.0, 10.0, 100.0, 80.0], (pairs, 1)),
        box_present=np.ones(pairs, dtype=bool),
    )
    predicted = generator.normal(points, 12)
    return predicted, truth, np.arange(pairs), ["cat" if k % 3 else "dog" for k in range(pairs)]


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
