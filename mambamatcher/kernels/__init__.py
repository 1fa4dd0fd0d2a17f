"""Kernels compiled by Numba. They compute on NumPy arrays and need no PyTorch; `ops` passes them tensors."""
