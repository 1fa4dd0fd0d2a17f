"""The paper's own figures, as tests. Sections and tables are named as the paper names them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mambamatcher import presets
from mambamatcher.benchmark.complexity import stages
from mambamatcher.model.checkpoint import read_config
from mambamatcher.model.correlation import Conv4dAggregation, FastFormerAggregation, SimilarityScanAggregation
from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.mambamatcher import count_parameters
from mambamatcher.model.saved import CONFIG, SHIPPED
from mambamatcher.model.transfer import matching_probability
from mambamatcher.model.transfer_settings import SHARP, Transfer
from tests.helpers import build_untrained

LEVELS = 16
ASSETS = SHIPPED["default"].parent


@pytest.fixture(scope="module")
def paper():
    config = presets.paper()
    return build_untrained(replace(config, backbone=replace(config.backbone, weights="random")))


@pytest.fixture(scope="module")
def cost():
    return {stage.name: stage for stage in stages(presets.paper())}


def test_correlation_aggregation_has_5057_parameters_and_5089_with_norm():
    assert count_parameters(SimilarityScanAggregation().build(LEVELS)) == 5057
    assert count_parameters(SimilarityScanAggregation(norm=True).build(LEVELS)) == 5089


def test_4d_convolution_has_1297_parameters():
    assert count_parameters(Conv4dAggregation(kernel_size=3).build(LEVELS)) == 1297


def test_fastformer_has_the_papers_26_0k_parameters_without_the_rotary_positions_of_transformatcher():
    assert count_parameters(FastFormerAggregation(rotary=False).build(LEVELS)) == 25_993
    assert count_parameters(FastFormerAggregation().build(LEVELS)) == 25_993 - 6 * (2 + 8)


def test_feature_aggregation_has_42471168_parameters(paper):
    assert count_parameters(paper.features) == 42_471_168


def test_backbone_has_86_58_million_parameters(paper):
    assert round(count_parameters(paper.backbone) / 1e6, 2) == 86.58


def test_feature_aggregation_takes_2_45_teraflop_for_a_pair(cost):
    assert round(cost["features"].flops / 1e12, 2) == 2.45


def test_backbone_takes_the_papers_359_gigaflop_within_3_percent(cost):
    assert cost["backbone"].flops == pytest.approx(359e9, rel=0.03)


def test_sixteen_levels_the_last_one_the_tokens_of_layer_11(paper):
    assert len(paper.backbone.level_channels) == LEVELS
    assert paper.backbone.taps[-1] == (11, "token")
    assert {layer for layer, _ in paper.backbone.taps} == set(range(4, 12))


def test_a_pair_has_30_to_the_fourth_positions(paper):
    with torch.device("meta"):
        features = paper.backbone(torch.rand(1, 3, 420, 420))
    assert features.shape == (1, LEVELS, 768, 30, 30)
    encoded = paper.features.per_image(features)
    refined = paper.correlate(encoded, encoded)
    assert refined.shape == (1, 30, 30, 30, 30)
    assert refined.numel() == 810_000


def test_the_inference_radius_covers_the_30x30_grid_and_no_coarser_one():
    transfer = presets.paper().transfer
    assert (transfer.radius, transfer.training_radius) == (0.05, 0.1)
    assert math.sqrt(2) / 30 < transfer.radius
    assert smallest_radius((30, 30)) < transfer.radius < smallest_radius((28, 28))


def test_the_readout_of_the_paper_is_the_printed_equation_with_the_sigma_of_transformatcher():
    """No temperature and no shift; sigma is 10 cells of a 30-cell grid."""
    refined = torch.randn(1, 3, 30, 30, generator=torch.Generator().manual_seed(0)).double()
    probability = matching_probability(refined.flatten(2), (30, 30), presets.paper().transfer)
    for row in range(3):
        scores = refined[0, row].numpy()
        k, l = np.unravel_index(scores.argmax(), scores.shape)  # noqa: E741
        rows, columns = np.mgrid[:30, :30]
        gaussian = np.exp(-((rows - k) ** 2 + (columns - l) ** 2) / (2 * 10**2))
        printed = np.exp(gaussian * scores) / np.exp(gaussian * scores).sum()
        np.testing.assert_allclose(probability[0, row].unflatten(0, (30, 30)), printed, rtol=1e-5)


@pytest.mark.parametrize("name", ["strong", "resnet101", "transformatcher"])
def test_the_papers_variants_and_transformatcher_share_the_printed_readout(name):
    assert presets.PRESETS[name]().transfer == presets.paper().transfer == Transfer()


def test_only_the_readout_tells_the_sharp_preset_from_the_papers():
    assert replace(presets.paper_sharp(), transfer=Transfer()) == presets.paper()
    assert presets.paper_sharp().transfer == SHARP


@pytest.mark.parametrize("model", ["lite", "lite-pf-pascal"])
def test_the_shipped_models_read_out_shifted_scores_at_their_own_temperature(model):
    transfer = read_config(ASSETS / model / CONFIG).transfer
    assert (transfer.sigma, transfer.scores) == (SHARP.sigma, SHARP.scores)
    assert transfer.temperature == presets.efficientnet().transfer.temperature == 20


def test_the_block_has_the_papers_sizes():
    block = presets.paper().correlation.mamba
    assert (block.state, block.conv, block.expand) == (16, 4, 3)
    mamba = SimilarityScanAggregation().build(LEVELS).scans[0].blocks[0]
    assert mamba.rank == 1
    assert count_parameters(mamba) == 5040


def test_the_scan_takes_what_a_hand_calculation_gives_rather_than_the_printed_23_2_gigaflop(cost):
    tokens, levels, inner, state, rank, width = 30**4, 16, 48, 16, 1, 4
    projections = levels * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * levels + levels
    by_hand = 2 * tokens * (projections + inner * width) + 9 * tokens * inner * state
    assert cost["correlation"].flops == by_hand
