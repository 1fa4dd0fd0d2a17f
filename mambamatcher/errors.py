"""The errors a user can cause. Each message says what was wrong, what was given and what to do."""


class MambaMatcherError(Exception):
    """Anything a caller can fix; the command line prints it as one sentence and exits with code 2."""


class ConfigError(MambaMatcherError, ValueError):
    """A configuration names something unknown or asks for something impossible."""


class InputError(MambaMatcherError, ValueError):
    """Images, points, files or tensors that cannot be used as they are."""


class WeightsError(MambaMatcherError):
    """Pretrained weights that are missing, unreadable or made for another model."""


class BackendError(MambaMatcherError, RuntimeError):
    """A compute backend that was requested by name and is not available."""


class MissingExtraError(MambaMatcherError, ImportError):
    """A package that is not part of the base install and that something asked for needs."""


class MemoryLimitError(MambaMatcherError, MemoryError):
    """More memory than is available, refused before it is allocated."""
