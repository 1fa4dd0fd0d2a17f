import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FILL = runpy.run_path(str(DOCS / "fill_paper.py"))


@pytest.mark.parametrize("path", FILL["PAGES"], ids=lambda path: path.stem)
def test_a_page_shows_the_stored_results_and_has_its_images(path):
    page = path.read_text(encoding="utf-8")
    assert FILL["filled"](page) == page, "run: python docs/fill_paper.py"
    for image in re.findall(r"\]\((pictures/[^)]+)\)", page):
        assert (DOCS / image).exists(), image
