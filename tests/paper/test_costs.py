"""What the modules cost is measured; what they hold can be counted by hand."""

from mambamatcher.model.presets import PRESETS
from mambamatcher.paper.costs import module_rows, resolution_cost_rows

LEVELS = 2 * 2  # the tiny backbone's two layers, two facets each


def test_every_module_takes_memory_and_time_and_has_the_parameters_counted_by_hand():
    rows = {row.name: row.cells for row in module_rows(PRESETS["tiny"]())}
    assert list(rows) == ["DINOv2", "Feature aggregation", "4D Conv k=3", "FastFormer", "Mamba + similarity-aware scan"]
    assert all(gigabytes.value >= 0 and milliseconds.value > 0 for gigabytes, milliseconds, _ in rows.values())
    assert rows["4D Conv k=3"][-1].value == f"{LEVELS * 3**4 + 1:,}"


def test_the_memory_of_a_grid_is_in_gigabytes_and_no_less_than_its_result():
    levels, grid = 2, 16
    for row in resolution_cost_rows(levels, {512: grid}):
        assert row.cells[0].value == grid
        result = 4 * grid**4 / 1e9
        assert result <= row.cells[1].value < 500 * result, row.name
