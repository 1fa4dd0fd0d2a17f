"""Optional dependencies: which extra brings a package, and one sentence where it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from mambamatcher.errors import MissingExtraError

# every package that some part of this one imports and the base install does not have
EXTRAS = {
    "torch": "torch",
    "einops": "torch",
    "llvmlite": "torch",
    "matplotlib": "torch",
    "numba": "torch",
    "scipy": "torch",
    "transformers": "torch",
    "huggingface_hub": "hub",
    "lightning": "train",
    "tensorboard": "train",
    "torchmetrics": "train",
    "onnx": "export",
    "onnxscript": "export",
    "fastapi": "web",
    "h11": "web",
    "python_multipart": "web",
    "pydantic": "web",
    "starlette": "web",
    "uvicorn": "web",
    "av": "video",
    "pyarrow": "scale",
    "ray": "scale",
    "captum": "paper",
    "h5py": "tools",
    "pandas": "tools",
    "sleap_io": "tools",
    "tables": "tools",
    "triton": "gpu",
}


def require(*modules: str) -> None:
    """Refuse at once what would need one of these modules only after a long computation.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    with naming_extra():
        for name in modules:
            import_module(name)


@contextmanager
def naming_extra(extra: str | None = None) -> Iterator[None]:
    """Turn the import of a missing optional package into an error that says how to install it.

    Args:
        extra: The extra that brings everything the block needs; by default the one that brings the missing package.

    Raises:
        MissingExtraError: An optional package is not installed.

    Example:
        >>> with naming_extra("web"):
        ...     raise ModuleNotFoundError(name="uvicorn.protocols")
        Traceback (most recent call last):
        mambamatcher.errors.MissingExtraError: uvicorn is not installed; run: pip install 'mambamatcher[web]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtraError(
            f"{package} is not installed; run: pip install 'mambamatcher[{extra or EXTRAS[package]}]'"
        ) from error
