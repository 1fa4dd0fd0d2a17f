"""Time and memory of the package, measured together with alternatives in one run."""
