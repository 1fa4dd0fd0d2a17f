"""A tiny model on rendered pairs: it has every part that the figures show, and none takes long."""

import pytest
import torch

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import tiny
from mambamatcher.paper.figure_inputs import FigureInputs
from mambamatcher.paper.opened_pair import open_pair


@pytest.fixture(scope="package")
def matcher():
    torch.manual_seed(0)
    return Matcher(MambaMatcher(tiny()))


@pytest.fixture(scope="package")
def pairs():
    rendered = read_pairs("synthetic", "val").pairs
    return [rendered[index] for index in range(3)]


@pytest.fixture(scope="package")
def opened(matcher, pairs):
    return open_pair(matcher, pairs[0])


@pytest.fixture(scope="package")
def inputs(matcher, pairs):
    return FigureInputs(matchers={"tiny": matcher, "again": matcher}, pairs=pairs, protocol="synthetic val, 3 pairs")
