"""Every package that the base install lacks is known, and its absence is one sentence with the command to get it."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mambamatcher.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# imported where they are installed, and without which another way is taken or their own sentence printed
ALTERNATIVES = {"mamba_ssm", "mambapy"}
# calls this package, so it is installed when it does
CALLER = {"cvat_sdk"}
# come with onnxruntime, numba, fastapi, uvicorn and sleap-io
IMPLIED = {"packaging", "llvmlite", "h11", "pydantic", "starlette", "h5py"}
# typer uses pydantic where it is installed
BLOCKED = "\n".join(["import sys", *(f"sys.modules[{name!r}] = None" for name in EXTRAS if name != "pydantic")])


def external_imports() -> set[str]:
    """Return every package that any file of ours imports, anywhere in it, outside checks for types only."""
    found = set[str]()
    for path in (ROOT / "mambamatcher").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"mambamatcher"}


def brought_by(extra: str) -> set[str]:
    """Return the packages of an extra, those of the extras within it included; `""` is the base install."""
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = set[str]()
    for requirement in map(Requirement, listed):
        if requirement.name == "mambamatcher":
            found |= {package for inner in requirement.extras for package in brought_by(inner)}
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def distributions(package: str) -> set[str]:
    return {canonicalize_name(name) for name in packages_distributions()[package]}


def test_every_import_is_of_the_base_install_or_has_an_extra():
    known = packages_distributions()
    base = {name for name in external_imports() if name in known and distributions(name) & brought_by("")}
    assert external_imports() - base - {"packaging"} - ALTERNATIVES - CALLER <= EXTRAS.keys()


@pytest.mark.parametrize(
    "package", [name for name in sorted(EXTRAS.keys() - IMPLIED) if name in packages_distributions()]
)
def test_the_extra_named_brings_the_package(package):
    assert distributions(package) & brought_by(EXTRAS[package])


# modules that only work with PyTorch, in packages that otherwise work without
WITH_TORCH = {
    "datasets.dataset",
    "datasets.synthetic",
    "matching.pair_export",
    "matching.torch_runtime",
    "tools.vismatch",
}
BASE = ("cli", "datasets", "evaluation", "io", "jobs", "matching", "tools")


def test_the_base_packages_import_nothing_that_needs_an_extra():
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in BASE
        for path in sorted((ROOT / "mambamatcher" / package).rglob("*.py"))
    ]
    chosen = [name for name in modules if not name.removeprefix("mambamatcher.").startswith(tuple(WITH_TORCH))]
    imports = "\n".join(f"import {name}" for name in chosen)
    done = subprocess.run([sys.executable, "-c", f"{BLOCKED}\n{imports}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


VERBS = {
    "torch": [
        ["match", "a.png", "b.png", "--model", "nearest"],
        ["match", "a.png", "b.png", "--runtime", "torch"],
        ["info"],
        ["benchmark", "scan"],
        ["benchmark", "growth"],
        ["benchmark", "pair"],
        ["benchmark", "gallery"],
        ["calibrate", "lite", "--dataset", "spair", "--split", "test", "--root", "."],
    ],
    "train": [["train", "--dataset", "spair", "--out", "run"]],
    "export": [["export", "--onnx", "out.onnx"]],
    "web": [["serve"], ["review", "."]],
    "video": [["propagate", "a.png", "clip.mp4", "--points-file", "points.json", "--out", "out"]],
    "scale": [
        ["features", ".", "--out", "out"],
        ["propagate", "a.png", ".", "--points-file", "points.json", "--out", "out", "--engine", "ray"],
        ["evaluate", "lite", "--dataset", "spair", "--engine", "ray"],
    ],
    "paper": [["reproduce", "list"], ["analyze", "list"]],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two images, points on one and a small benchmark."""
    from tests.datasets import releases

    place = tmp_path_factory.mktemp("verbs")
    sample = ROOT / "mambamatcher" / "assets" / "sample"
    for name, other in (("a.png", "source.png"), ("b.png", "target.png"), ("points.json", "points.json")):
        (place / name).write_bytes((sample / other).read_bytes())
    (place / "clip.mp4").write_bytes(b"a video by its name")
    releases.write_spair(place, [releases.spair_annotation(f"{number:06d}-one-two:cat") for number in range(2)])
    return place


@pytest.mark.parametrize(("extra", "verb"), [(extra, verb) for extra, verbs in VERBS.items() for verb in verbs])
def test_a_verb_without_its_extra_ends_in_one_sentence(extra, verb, folder):
    script = f"{BLOCKED}\nsys.argv = ['mambamatcher', *{verb!r}]\nfrom mambamatcher.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.strip().endswith(f"run: pip install 'mambamatcher[{extra}]'"), done.stderr
