"""The page of other systems against the quoted tables, the presets and the comparison with the authors' code."""

import json
import re
import tomllib
from pathlib import Path

from mambamatcher.model.presets import PRESETS
from mambamatcher.paper import quoted as quoted_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
PUBLISHED = {"ncnet", "transformatcher", "cats", "cats++", "chm", "hccnet", "scorrsan", "nearest-dinov2-base"}


def table(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def quoted() -> dict[str, list[str]]:
    """Collect the printed headline figures of every system of the paper's tables."""
    found: dict[str, list[str]] = {}
    tables = tomllib.loads((Path(quoted_tables.__file__).parent / "comparisons.toml").read_text(encoding="utf-8"))
    for name in ("main", "categories", "cross-dataset"):
        column = tables[name]["columns"].index(tables[name]["headline"])
        for system, *cells in tables[name]["rows"]:
            system = re.sub("^SD.DINO", "DINO+SD", system.removesuffix(" zero-shot").removesuffix(" supervised"))
            found.setdefault(system, []).append(str(cells[column]))
    del found["MambaMatcher (paper)"]
    return found


def test_all_nineteen_systems_of_the_papers_tables_are_listed_once():
    systems = [row[0] for row in table("The nineteen")]
    assert len(systems) == 19
    assert sorted(systems) == sorted(quoted())


def test_every_figure_is_one_that_the_paper_prints_for_that_system():
    for system, *_, figures, _ours in table("The nineteen"):
        printed = re.findall(r"\d+\.\d", figures)
        assert printed, system
        assert set(printed) <= set(quoted()[system]), system


def test_every_preset_of_another_system_is_on_the_page():
    for preset in PUBLISHED & set(PRESETS):
        assert f"preset `{preset}`" in PAGE, preset


def test_the_differences_from_the_authors_code_are_those_of_the_result_file():
    path = ROOT / "benchmarks" / "results" / "peers" / "beside-authors.json"
    rows = [
        [
            row["system"],
            f"{row['our_head_parameters']:,}",
            f"{row['largest_score']:.2f}",
            f"{row['largest_difference']:.1e}",
        ]
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    ]
    assert table("Beside the authors' code") == rows
