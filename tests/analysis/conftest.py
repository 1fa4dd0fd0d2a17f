"""A tiny model on rendered pairs: every analysis has all its parts, and none takes long."""

import pytest
import torch

from mambamatcher.analysis.cases import open_case
from mambamatcher.analysis.subject import Subject
from mambamatcher.data.benchmarks import read_pairs
from mambamatcher.matcher import Matcher
from mambamatcher.model import MambaMatcher
from mambamatcher.presets import tiny


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
