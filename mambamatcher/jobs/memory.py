"""Memory of a process that works on many images."""

import ctypes

KEPT_BLOCK, KEPT = 64 << 20, 512 << 20  # bytes: largest block that is kept, and limit for all kept blocks
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameter numbers from glibc's malloc.h


def keep_freed_memory() -> None:
    """Make glibc keep freed memory for the next image instead of returning it to the system.

    By default glibc returns large blocks at once and allocates them again for every image. With the model `lite` this
    takes 5 % of the time, and more when several processes do so. Call it only in processes that we started ourselves.
    Without glibc it does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another C library, or Windows
        return
    mallopt(_MMAP_THRESHOLD, KEPT_BLOCK)
    mallopt(_TRIM_THRESHOLD, KEPT)
