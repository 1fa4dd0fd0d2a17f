"""Convolutions as matrix products agree with convolutions, and only the graph for ONNX Runtime has them."""

import onnx
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mambamatcher.model.features.conv import ConvAggregation
from mambamatcher.model.saved import GRAPH, SHIPPED
from mambamatcher.ops.winograd_products import convolve_twice_by_products, dividing_tile


@pytest.mark.parametrize(("tile", "grid"), [(4, (8, 12)), (4, (4, 4)), (6, (12, 6)), (6, (24, 18))])
@pytest.mark.parametrize("activate", [False, True])
def test_products_agree_with_convolutions_in_double_precision(tile, grid, activate):
    torch.manual_seed(0)
    widen, narrow = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 3, 3, padding=1)
    maps = torch.randn(2, 3, *grid)
    found = convolve_twice_by_products(maps, widen, narrow, tile, activate)
    expected = narrow.double()(widen.double()(maps.double()).relu())
    assert_close(found, (expected.relu() if activate else expected).float(), atol=1e-4, rtol=1e-4)


def test_only_grids_of_whole_tiles_and_few_weights_are_computed_by_products():
    weight = torch.empty(128, 64, 3, 3, device="meta")
    tiles = {grid: dividing_tile(grid, weight) for grid in ((24, 24), (8, 24), (16, 16), (25, 24), (24, 22))}
    assert tiles == {(24, 24): 6, (8, 24): 4, (16, 16): 4, (25, 24): None, (24, 22): None}
    assert dividing_tile((24, 24), torch.empty(3072, 768, 3, 3, device="meta")) is None


def test_an_aggregation_gives_the_same_with_products():
    torch.manual_seed(0)
    aggregator = ConvAggregation(hidden_ratio=2).build(64)
    features = torch.randn(1, 2, 64, 12, 12)
    expected = aggregator.per_image(features)
    aggregator.as_products = True
    assert_close(aggregator.per_image(features), expected, atol=1e-4, rtol=1e-4)


def test_the_graph_of_lite_has_no_large_convolution_with_3x3_weights():
    graph = onnx.load(SHIPPED["lite"] / GRAPH, load_external_data=False).graph
    shapes = {each.name: tuple(each.dims) for each in graph.initializer}
    convolutions = [shapes[node.input[1]] for node in graph.node if node.op_type == "Conv"]
    assert not [shape for shape in convolutions if shape[2:] == (3, 3) and shape[1] > 3]
