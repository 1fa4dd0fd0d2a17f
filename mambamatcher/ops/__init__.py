"""Numerical operations on tensors. No `nn.Module` lives here."""

from mambamatcher.ops.selective_scan import DISCRETIZATIONS, selective_scan

__all__ = ["DISCRETIZATIONS", "selective_scan"]
