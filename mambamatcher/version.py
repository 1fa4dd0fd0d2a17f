"""The version of the package, where anything may read it."""

__version__ = "0.1.0"
