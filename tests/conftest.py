"""Tests run in several processes at once; each is then faster with a single thread than with all of them fighting."""

import os

import torch
from hypothesis import settings

# a busy machine is slow, which no test here is about
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
