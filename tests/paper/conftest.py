"""A tiny model on rendered pairs: every analysis has all its parts, and none takes long."""

import pytest
import torch

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import tiny
from mambamatcher.paper.figure_inputs import Subject
from mambamatcher.paper.opened_pair import open_case


@pytest.fixture(scope="package")
def matcher():
    torch.manual_seed(0)
    return Matcher(MambaMatcher(tiny()))


@pytest.fixture(scope="package")
def pairs():
    rendered = read_pairs("synthetic", "val").pairs
    return [rendered[index] for index in range(3)]


@pytest.fixture(scope="package")
def case(matcher, pairs):
    return open_case(matcher, pairs[0])


@pytest.fixture(scope="package")
def subject(matcher, pairs):
    return Subject(matchers={"tiny": matcher, "again": matcher}, pairs=pairs, where="synthetic val, 3 pairs")
