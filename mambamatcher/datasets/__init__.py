"""Benchmarks, their pairs and what is done to them before a model sees them."""
