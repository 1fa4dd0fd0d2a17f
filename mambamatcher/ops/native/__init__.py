"""What the CPU kernels need of PyTorch: whether they may run, how many threads to use, and memory for tensors."""
