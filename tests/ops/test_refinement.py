import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from mambamatcher.errors import InputError
from mambamatcher.kernels.refinement import CHUNK
from mambamatcher.model.layers.mamba import Mamba, MambaSettings
from mambamatcher.ops.ordering import stable_argsort
from mambamatcher.ops.refinement import Head, as_array, block_weights, refine

THREADS = """
import hashlib, sys; sys.path.insert(0, ".")
from tests.ops.test_refinement import PAPER, Stage
print(hashlib.sha256(Stage(16, PAPER).fused(9000).numpy().tobytes()).hexdigest())
"""


class Stage(nn.Module):
    """The layers that the fused refinement replaces: sort, norm, block, residual, projection, undo the sorting."""

    def __init__(self, levels: int, settings: MambaSettings, norm: bool = False, residual: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.block = Mamba(levels, settings)
        self.norm = nn.LayerNorm(levels) if norm else nn.Identity()
        self.project = nn.Linear(levels, 1)
        self.residual = residual
        for parameter in self.parameters():  # replace special initial values such as zeros
            nn.init.normal_(parameter, std=0.3)

    def tokens(self, positions: int, batch: int = 1) -> torch.Tensor:
        return torch.rand(batch, positions, self.project.in_features) * 2 - 1

    def forward(self, sequence: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        tokens = torch.stack([each[index] for each, index in zip(sequence, order, strict=True)])
        scanned = self.block(self.norm(tokens))
        scores = self.project(tokens + scanned if self.residual else scanned).squeeze(-1)
        return torch.empty_like(scores).scatter_(1, order, scores)

    def head(self) -> Head:
        layers = [self.project, self.norm] if isinstance(self.norm, nn.LayerNorm) else [self.project]
        affine = [as_array(each) for layer in layers for each in (layer.weight, layer.bias)]
        return Head(*affine, residual=self.residual)

    def fused(self, positions: int) -> torch.Tensor:
        torch.manual_seed(1)
        tokens = self.tokens(positions)
        weights = block_weights(self.block.state_dict())
        return refine(tokens, stable_argsort(tokens[..., -1]), weights, self.head())


def assert_same_as_module(stage: Stage, sequence: torch.Tensor) -> None:
    order = stable_argsort(sequence[..., -1])
    weights = block_weights(stage.block.state_dict())
    with torch.no_grad():
        wanted = stage(sequence, order)
    found = refine(sequence, order, weights, stage.head(), stage.block.discretization)
    assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()


PAPER = MambaSettings(expand=3)


@pytest.mark.parametrize("positions", [1, 2, 63, 64, 65, 1000, CHUNK, CHUNK + 1, 2 * CHUNK + 77])
def test_refinement_equals_the_module_at_any_length(positions):
    stage = Stage(16, PAPER)
    assert_same_as_module(stage, stage.tokens(positions))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("discretization", ["euler", "zoh"])
def test_refinement_equals_the_module_with_every_option(norm, residual, discretization):
    stage = Stage(16, MambaSettings(expand=3, discretization=discretization), norm, residual)
    assert_same_as_module(stage, stage.tokens(200, batch=3))


@pytest.mark.parametrize(
    ("levels", "settings"),
    [
        (5, MambaSettings(state=3, conv=2, expand=3, rank=2)),
        (1, MambaSettings(state=1, conv=1, expand=1)),
        (20, MambaSettings(state=7, conv=6, expand=2, rank=9)),
    ],
)
def test_sizes_need_not_fill_whole_vectors(levels, settings):
    stage = Stage(levels, settings)
    assert_same_as_module(stage, stage.tokens(150, batch=2))


def test_levels_may_lie_apart_in_memory():
    stage = Stage(16, PAPER)
    assert_same_as_module(stage, stage.tokens(150).transpose(1, 2).contiguous().transpose(1, 2))


def test_one_two_and_four_threads_give_identical_scores():
    found = {
        threads: subprocess.run(
            [sys.executable, "-c", THREADS],
            env=os.environ | {"NUMBA_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            timeout=120,
        )
        for threads in ("1", "2", "4")
    }
    assert len(found["1"].stdout) > 60, found["1"].stderr
    assert len({process.stdout for process in found.values()}) == 1


@pytest.mark.parametrize(
    ("shape", "order", "message"),
    [
        ((1, 0, 16), torch.zeros(1, 0, dtype=torch.int64), "at least one"),
        ((1, 3, 15), torch.arange(3)[None], "takes 16 levels"),
        ((1, 3, 16), torch.tensor([[0, 1, 3]]), "from 0 to 3"),
        ((1, 3, 16), torch.tensor([[-1, 1, 2]]), "from -1 to 2"),
        ((1, 3, 16), torch.arange(3, dtype=torch.int32)[None], "int32"),
    ],
)
def test_what_the_kernels_would_read_wrongly_is_refused(shape, order, message):
    stage = Stage(16, PAPER)
    with pytest.raises(InputError, match=message):
        refine(torch.zeros(shape), order, block_weights(stage.block.state_dict()), stage.head())
