"""What the CPU kernels share: vectors, elementary functions, compilation and threads."""
