"""What the package costs in time and memory, measured beside its alternatives in one run."""
