"""Annotation tools in environments of their own, which `make test-tools` makes."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def program(tool: str, name: str = "python") -> str:
    """Return a program of a tool's environment, or skip the test."""
    path = ROOT / ".venv-tools" / tool / "bin" / name
    if not path.exists():
        pytest.skip(f"{tool} is not installed; make test-tools installs it")
    return str(path)
