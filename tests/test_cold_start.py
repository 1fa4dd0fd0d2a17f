"""What a first match must not wait for. Each of these modules once took from 0.1 to 1.7 s of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "mambamatcher" / "assets" / "sample"
COMPILERS = {"torch._dynamo", "torch._inductor", "sympy", "triton"}
LIBRARIES = {"transformers", "matplotlib", "lightning", "scipy", "rich", "typer"}

MATCH = f"""
from mambamatcher import Matcher
matcher = Matcher.{{}}
assert len(matcher.match({str(SAMPLE / "source.png")!r}, {str(SAMPLE / "target.png")!r}, [(100, 100)]).points) == 1
"""


def modules_after(script: str) -> set[str]:
    """Run a script in a process of its own and return what it has imported."""
    listing = "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script + listing], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_imports_nothing_heavy():
    assert not modules_after("import mambamatcher") & {"torch", "numpy", "numba", "PIL", *LIBRARIES}


def test_nearest_neighbours_match_without_numba_and_without_compilers():
    modules = modules_after(MATCH.format("from_preset('nearest')"))
    assert "torch" in modules
    assert not modules & {"numba", *COMPILERS, *LIBRARIES}


def test_lite_matches_without_compilers_other_than_numba_by_torch():
    modules = modules_after(MATCH.format("from_pretrained('lite', runtime='torch')"))
    assert "numba" in modules
    assert not modules & (COMPILERS | LIBRARIES - {"scipy"})  # Numba itself imports SciPy


@pytest.mark.parametrize("model", ["default", "lite"])
def test_shipped_models_match_without_torch_and_numba(model):
    modules = modules_after(MATCH.format(f"from_pretrained({model!r})"))
    assert "onnxruntime" in modules
    assert not modules & {"torch", "numba", "einops", "onnx", *COMPILERS, *LIBRARIES}


@pytest.mark.parametrize("arguments", [["--help"], ["match", "--help"], ["benchmark", "pair", "--help"]])
def test_help_is_printed_without_torch(arguments):
    script = f"import sys; sys.argv = ['mambamatcher', *{arguments!r}]\nfrom mambamatcher.cli import main\n"
    modules = modules_after(script + "try: main()\nexcept SystemExit: pass")
    assert "typer" in modules
    assert not modules & {"torch", "numpy", "numba", "matplotlib", "transformers"}
