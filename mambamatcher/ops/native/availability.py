"""When compiled kernels cannot be used, so that PyTorch's own operations must take their place."""

from torch.autograd import forward_ad

from mambamatcher.kernels.availability import compiler_is_disabled


def in_forward_mode() -> bool:
    """Return whether forward-mode differentiation is active, as in `torch.func.jvp`.

    The kernels know only the backward pass. Of an operator without a forward-mode formula PyTorch takes the derivative
    to be zero, without a word.
    """
    return forward_ad._current_level >= 0


def kernels_are_available() -> bool:
    """Return whether kernels can compute, and give the right derivatives."""
    return not in_forward_mode() and not compiler_is_disabled()
