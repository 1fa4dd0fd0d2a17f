"""The quoted tables: a sample of cells copied by hand from the paper's LaTeX source, and their form."""

import pytest

from mambamatcher.paper.output import QUOTED
from mambamatcher.paper.quoted import QUOTED_TABLES, parse_tables
from mambamatcher.paper.tables import TABLES

# cells as the LaTeX source prints them; a square image size is quoted as its side
PRINTED = {
    ("main", "MambaMatcher (paper)"): "420 & 87.3 & 95.9 & 98.2 & 61.6 & 77.8 & 84.3 & 74 & 2.1",
    ("main", "TransforMatcher"): "240 & 80.8 & 91.8 & - & 32.4 & 53.7 & - & 54 & 1.6",
    ("pf-willow", "MambaMatcher (paper)"): "56.2 & 81.1 & 47.4 & 72.1",
    ("categories", "DINOv2"): (
        "69.9 & 58.9 & 86.8 & 36.9 & 43.4 & 42.6 & 39.3 & 70.2 & 37.5 & 69.0 & 63.7 & 68.9 & 55.1 & 65.0 & 33.3 & 57.8"
        " & 51.2 & 31.2 & 53.9"
    ),
    ("layers-combined", "9-11"): "28.9 & 46.7 & 58.0",
    ("features", "+ bidirectional"): "53.3 & 75.2 & 82.8",
    ("backbones", "ResNet101, no augmentation"): "38.2 & 53.3 & 61.3",
    ("modules", "DINOv2"): "0.97 & 10.3 & 86.6M",
    ("resolution-cost", "FastFormer, side 560"): "40 & 3.16 & 28.9",
}


@pytest.mark.parametrize(("table", "row"), PRINTED)
def test_cells_are_those_of_the_paper_with_the_digits_it_prints(table, row):
    (found,) = [each for each in QUOTED_TABLES[table].rows if each.name == row]
    assert list(map(str, found.cells)) == PRINTED[table, row].split(" & ")


def test_a_mean_with_a_deviation_is_quoted_as_an_interval():
    fastformer = QUOTED_TABLES["significance"].rows[0]  # $59.9\pm0.74$ & $76.9\pm1.40$ & $83.9\pm1.27$
    expected = [(59.9, 59.16, 60.64), (76.9, 75.5, 78.3), (83.9, 82.63, 85.17)]
    for cell, (value, low, high) in zip(fastformer.cells, expected, strict=True):
        assert (cell.value, cell.low, cell.high) == (value, pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("name", list(QUOTED_TABLES))
def test_every_quoted_row_has_a_value_for_each_column_and_is_marked(name):
    table = TABLES[name].quoted
    assert table is QUOTED_TABLES[name]
    for row in table.rows:
        assert len(row.cells) == len(table.columns), row.name
        assert (row.origin, row.protocol) == (QUOTED, table.protocol)
    assert 0 <= table.headline < len(table.columns)


def test_every_file_holds_only_tables_that_can_be_reproduced():
    assert QUOTED_TABLES.keys() == set(TABLES) - {"scan", "league"}  # which the paper does not have


@pytest.mark.parametrize("printed", ["61.0", "1.74", "0.02754", "359.32", "420", "0.9", "43.05", '"-"', '"5.1K"'])
def test_a_quoted_value_keeps_the_digits_it_was_printed_with(printed):
    text = f'[t]\nlabel = "l"\ntitle = "T"\nprotocol = "p"\ncolumns = ["a"]\nheadline = "a"\nrows = [["r", {printed}]]'
    ((_, table),) = parse_tables(text)
    assert str(table.rows[0].cells[0]) == printed.strip('"')


def test_a_remark_belongs_to_every_table_it_names():
    tables = "facets", "facets-combined", "layers", "layers-combined"
    assert len({QUOTED_TABLES[name].remarks for name in tables}) == 1
    assert "one of the two labels is wrong" in QUOTED_TABLES["layers"].remarks[0]
    assert QUOTED_TABLES["sort-key"].remarks == ()
