"""Numeric kernels: functions of tensors, no modules."""

from mambamatcher.ops.selective_scan import DISCRETIZATIONS, selective_scan

__all__ = ["DISCRETIZATIONS", "selective_scan"]
