"""Parts from outside the package, in a package that pip has installed, and in a module of the current folder."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mambamatcher import cli
from mambamatcher.cli import imports_first
from mambamatcher.model.correlation import CORRELATION_AGGREGATIONS
from tests.helpers import run_cli

REPOSITORY = Path(cli.__file__).parents[2]
MODULE = """
from dataclasses import dataclass

import torch
from mambamatcher.model.correlation import CORRELATION_AGGREGATIONS, CorrelationAggregator, CorrelationConfig


class Largest(CorrelationAggregator):
    def __init__(self, levels):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(levels))

    def forward(self, correlation):
        return (correlation * self.weight[None, :, None, None, None, None]).amax(dim=1)


@CORRELATION_AGGREGATIONS.register("largest")
@dataclass(frozen=True, kw_only=True, slots=True)
class LargestAggregation(CorrelationConfig):
    def build(self, levels):
        return Largest(levels)
"""
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "largest-aggregator"
version = "1.0"
[project.entry-points."mambamatcher.plugins"]
largest = "largest_aggregator"
[tool.setuptools]
py-modules = ["largest_aggregator"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the small package into a folder of its own."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "largest_aggregator.py").write_text(MODULE)
    (source / "pyproject.toml").write_text(PROJECT)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    return site


def mambamatcher(site, folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{REPOSITORY}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mambamatcher", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_an_installed_aggregator_trains_is_saved_loaded_and_evaluated(installed, tmp_path):
    recipe = ["steps=2", "round_steps=2", "effective_batch=2", "batch_size=2", "workers=0", "augment=false"]
    trained = mambamatcher(
        installed, tmp_path, "train", "--preset", "tiny", "--dataset", "synthetic", "--out", "run", "--accelerator",
        "cpu", "--validation-pairs", 2, "model.correlation=largest", *recipe,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert '"kind": "largest"' in (tmp_path / "run" / "model" / "config.json").read_text()
    data = ["--dataset", "synthetic", "--split", "val", "--limit", 2]
    evaluated = mambamatcher(installed, tmp_path, "evaluate", "run/model", *data, "--out", "evaluation", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    without = mambamatcher("", tmp_path, "evaluate", "run/model", *data, "--out", "other")
    assert without.returncode == 2
    assert "unknown correlation aggregation 'largest'" in without.stderr


def test_a_broken_package_is_named_in_one_sentence(tmp_path):
    (tmp_path / "broken.py").write_text("raise OSError('no\\ndriver')")
    folder = tmp_path / "broken_package-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[mambamatcher.plugins]\nbroken = broken\n")
    result = mambamatcher(tmp_path, tmp_path, "info")
    assert result.returncode == 2
    assert result.stderr == (
        "mambamatcher: the plug-in 'broken' of broken-package cannot be imported: OSError: no driver; "
        "remove or repair that package\n"
    )


@pytest.fixture
def run(capsys, monkeypatch):
    return partial(run_cli, monkeypatch, capsys)


@pytest.mark.parametrize("before", [True, False])
def test_a_module_of_the_current_folder_can_be_imported_before_or_after_the_verb(run, tmp_path, monkeypatch, before):
    name = f"my_parts_{before}".lower()
    (tmp_path / f"{name}.py").write_text(MODULE.replace('"largest"', f'"{name}"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(CORRELATION_AGGREGATIONS, "_entries", dict(CORRELATION_AGGREGATIONS._entries))
    verb, option = ["info", "--model", "tiny", f"correlation={name}"], ["--import", name]
    code, out, error = run(*option, *verb) if before else run(*verb, *option)
    assert code == 0, error
    assert "tiny: 84 px" in out


def test_a_module_that_is_not_there_or_fails_is_one_sentence(run, tmp_path, monkeypatch):
    (tmp_path / "fails_here.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, says in (("gone_module", "No module named 'gone_module'"), ("fails_here", "ZeroDivisionError")):
        code, _, error = run("--import", name, "info")
        assert code == 2
        assert error.startswith(f"mambamatcher: --import {name} cannot be imported: ")
        assert says in error
        assert error.count("\n") == 1


def test_imports_are_moved_to_the_front_in_their_order():
    given = ["train", "--import", "a", "--out", "x", "--import=b"]
    assert imports_first(given) == ["--import", "a", "--import=b", "train", "--out", "x"]
    assert imports_first(["info", "--import"]) == ["--import", "info"]
