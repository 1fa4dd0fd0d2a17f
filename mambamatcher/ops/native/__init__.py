"""Shared parts of the CPU kernels: SIMD vectors, elementary functions, compilation, memory and threads."""
