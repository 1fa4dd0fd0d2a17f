import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_paper_page_shows_the_stored_results_and_has_its_images():
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    fill = runpy.run_path(str(DOCS / "fill_paper.py"))["filled"]
    assert fill(page) == page, "run: python docs/fill_paper.py"
    for image in re.findall(r"\]\((pictures/[^)]+)\)", page):
        assert (DOCS / image).exists(), image
