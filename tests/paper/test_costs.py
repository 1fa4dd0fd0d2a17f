"""What the modules cost is measured; what they hold can be counted by hand."""

from mambamatcher.model.presets import PRESETS
from mambamatcher.paper.costs import module_rows, resolution_cost_rows

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
