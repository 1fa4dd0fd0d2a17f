"""The errors a user can cause. Each message says what was wrong, what was given and what to do."""


class MambaMatcherError(Exception):
    """Anything a caller can mend; the command line prints it as one sentence and exits with 2."""


class ConfigError(MambaMatcherError, ValueError):
    """A configuration names something unknown or asks for something impossible."""


class InputError(MambaMatcherError, ValueError):
    """Pictures, points or tensors that cannot be used as they are."""


class WeightsError(MambaMatcherError):
    """Pretrained weights that are missing, unreadable or made for another model."""


class BackendError(MambaMatcherError, RuntimeError):
    """A compute backend that was asked for by name and is not available here."""


class MemoryLimitError(MambaMatcherError, MemoryError):
    """More memory than there is; foreseen, before any of it is taken."""
