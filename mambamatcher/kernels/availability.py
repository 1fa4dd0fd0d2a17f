"""When kernels cannot be compiled."""

import os


def compiler_is_disabled() -> bool:
    """Return whether NUMBA_DISABLE_JIT is set, which leaves kernels as Python functions that cannot be run."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
