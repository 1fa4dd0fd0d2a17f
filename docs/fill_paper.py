"""Put the results of `mambamatcher reproduce` and `analyze` into docs/paper.md: `python docs/fill_paper.py`.

Between `<!-- NAME -->` and `<!-- end of NAME -->` the page holds what benchmarks/results/paper/NAME.md says.
"""

import re
import shutil
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, RESULTS = DOCS / "paper.md", DOCS.parent / "benchmarks" / "results" / "paper"
MARKED = re.compile(r"<!-- (?P<name>[\w/-]+) -->\n.*?<!-- end of (?P=name) -->\n", re.S)


def main() -> None:
    """Fill the page and copy the pictures it shows."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page), encoding="utf-8")
    for mark in MARKED.finditer(page):
        picture = RESULTS / f"{mark['name']}.png"
        if picture.exists():
            shutil.copyfile(picture, DOCS / _picture(mark["name"]))


def filled(page: str) -> str:
    """Return the page with the present results in their places."""
    return MARKED.sub(
        lambda mark: f"<!-- {mark['name']} -->\n{_result(mark['name'])}<!-- end of {mark['name']} -->\n", page
    )


def _result(name: str) -> str:
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return "Not run yet.\n"
    text = path.read_text(encoding="utf-8").split("\n", 2)[2]  # without its title, which the page gives
    return text.replace(f"]({path.stem}.png)", f"]({_picture(name)})")


def _picture(name: str) -> str:
    return f"pictures/paper-{name.replace('/', '-')}.png"


if __name__ == "__main__":
    main()
