import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_paper_says_what_the_results_say_and_has_its_pictures():
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    fill = runpy.run_path(str(DOCS / "fill_paper.py"))["filled"]
    assert fill(page) == page, "run: python docs/fill_paper.py"
    for picture in re.findall(r"\]\((pictures/[^)]+)\)", page):
        assert (DOCS / picture).exists(), picture
