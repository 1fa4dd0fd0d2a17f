"""Tests run in several processes at once; each is then faster with a single thread than with all of them fighting."""

import os

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
