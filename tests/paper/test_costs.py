"""What the modules cost is measured; what they hold can be counted by hand."""

from dataclasses import replace

from mambamatcher.model.correlation import LinearAggregation
from mambamatcher.model.features import SpatialContextAggregation
from mambamatcher.model.presets import PRESETS
from mambamatcher.paper.costs import head_cost, module_rows, resolution_cost_rows

LEVELS = 2 * 2  # the tiny backbone's two layers, two facets each


def test_every_module_takes_memory_and_time_and_has_the_parameters_counted_by_hand():
    rows = {row.name: row.cells for row in module_rows(PRESETS["tiny"]())}
    assert list(rows) == ["DINOv2", "Feature aggregation", "4D Conv k=3", "FastFormer", "Mamba + similarity-aware scan"]
    assert all(gigabytes.value >= 0 and milliseconds.value > 0 for gigabytes, milliseconds, _ in rows.values())
    assert rows["4D Conv k=3"][-1].value == f"{LEVELS * 3**4 + 1:,}"


def test_the_fused_scan_takes_what_its_tokens_need_and_fastformer_many_times_more():
    grid = 20
    scan, fastformer = resolution_cost_rows(2, {512: grid})
    assert scan.cells[0].value == fastformer.cells[0].value == grid
    # per token: a 64-bit place in the order, 16 bytes to sort, and its score
    needed = (8 + 16 + 4) * grid**4 / 1e9
    assert 4 * grid**4 / 1e9 <= scan.cells[1].value < 1.5 * needed
    assert fastformer.cells[1].value > 10 * needed


def test_the_cost_of_a_head_counts_its_features_only_if_they_are_its_own():
    config = replace(PRESETS["tiny"](), features=SpatialContextAggregation(width=8), correlation=LinearAggregation())
    channels, neighbours = 48, 4 * 7
    alone, with_features = (head_cost(config, with_features=each) for each in (False, True))
    assert alone[0].value == LEVELS + 1
    assert with_features[0].value == LEVELS + 1 + LEVELS * (8 * (channels + neighbours) + 8)
    assert alone[1].value > 0
