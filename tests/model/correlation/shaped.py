"""Checks that the heads which also see the features share."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.testing import assert_close

from mambamatcher.model.correlation import AppearanceAggregator
from tests import slow

Slow = Callable[[AppearanceAggregator, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def check_against(slow_version: Slow, module: AppearanceAggregator, maps: Tensor, source: Tensor, target: Tensor):
    """Compare every pair of a batch with a slow version."""
    refined = module.refine_pair(maps, source, target)
    for b in range(len(maps)):
        expected = slow_version(module, *(slow.numpy(each[b]) for each in (maps, source, target)))
        assert_close(slow.numpy(refined[b]), expected, rtol=1e-8, atol=1e-8)


def check_gradients(module: AppearanceAggregator, *given: Tensor):
    """Check that the result is one map, and that inputs and parameters have finite gradients that are not all zero."""
    for each in given:
        each.requires_grad_()
    refined = module.refine_pair(*given)
    assert refined.shape == (len(given[0]), *given[0].shape[2:])
    (refined * torch.randn_like(refined)).sum().backward()
    for name, tensor in {**dict(enumerate(given)), **dict(module.named_parameters())}.items():
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        assert tensor.grad.abs().sum() > 0, name


def check_constants(module: AppearanceAggregator, maps: Tensor, source: Tensor, target: Tensor):
    """Check that constant maps give finite scores."""
    for value in (0.0, -1.0, 1.0):
        assert module.refine_pair(torch.full_like(maps, value), source, target).isfinite().all()
