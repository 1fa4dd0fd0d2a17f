"""Benchmarks: parsers, pairs, augmentation and batches."""
