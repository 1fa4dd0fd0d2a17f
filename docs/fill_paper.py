"""Copy the results of `mambamatcher reproduce` and `analyze` into the docs that show them: `python docs/fill_paper.py`.

The text between `<!-- NAME -->` and `<!-- end of NAME -->` is replaced with benchmarks/results/paper/NAME.md.
"""

import re
import shutil
from pathlib import Path

DOCS = Path(__file__).parent
PAGES, RESULTS = (DOCS / "paper.md", DOCS / "peers.md"), DOCS.parent / "benchmarks" / "results" / "paper"
MARKED = re.compile(r"<!-- (?P<name>[\w/-]+) -->\n.*?<!-- end of (?P=name) -->\n", re.S)


def main() -> None:
    """Fill the pages and copy their images."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        path.write_text(filled(page), encoding="utf-8")
        for mark in MARKED.finditer(page):
            image = RESULTS / f"{mark['name']}.png"
            if image.exists():
                shutil.copyfile(image, DOCS / _image(mark["name"]))


def filled(page: str) -> str:
    """Return the page with the current results."""
    return MARKED.sub(
        lambda mark: f"<!-- {mark['name']} -->\n{_result(mark['name'])}<!-- end of {mark['name']} -->\n", page
    )


def _result(name: str) -> str:
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return "Not run yet.\n"
    text = path.read_text(encoding="utf-8").split("\n", 2)[2]  # without the title, which the page has
    return text.replace(f"]({path.stem}.png)", f"]({_image(name)})")


def _image(name: str) -> str:
    return f"pictures/paper-{name.replace('/', '-')}.png"


if __name__ == "__main__":
    main()
