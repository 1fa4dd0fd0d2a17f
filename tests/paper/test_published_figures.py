"""Figures that pages publish against the result files they come from."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
CARDS = sorted((ROOT / "mambamatcher" / "assets").glob("*/README.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *CARDS]
INTERVAL = re.compile(r"(\d+\.\d)(?:\*\*)? \((?:95 % interval )?(\d+\.\d)(?:-| to )(\d+\.\d)\)")


@cache
def measured() -> set[tuple[str, ...]]:
    """Collect every value with an interval of the result files, in percent with one decimal."""
    found = set()
    for path in RESULTS.rglob("*.md"):
        found |= set(INTERVAL.findall(path.read_text(encoding="utf-8")))
    for path in RESULTS.rglob("*.json"):
        if path.parent.name in ("rows", "former-rows"):  # thousands of pairs each; the tables show their means
            continue
        collect(json.loads(path.read_text(encoding="utf-8")), found)
    return found


def collect(content, found):
    """Add lists of a value, its lower and its upper bound, however deep they lie."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        if len(content) == 3 and all(isinstance(each, float) for each in content):
            found.add(tuple(f"{each:.1f}" for each in content))
        for each in content:
            collect(each, found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_value_with_an_interval_is_in_a_result_file(page):
    published = set(INTERVAL.findall(page.read_text(encoding="utf-8")))
    assert published - measured() == set(), "no file under benchmarks/results has these; measure them or withdraw them"


def test_a_figure_without_a_file_is_noticed():
    assert INTERVAL.findall("**52.0** (95 % interval 48.6 to 55.2), 31.4 (28.7-33.9)") == [
        ("52.0", "48.6", "55.2"),
        ("31.4", "28.7", "33.9"),
    ]
    assert ("99.9", "99.8", "100.0") not in measured()


def load(name: str):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def stages_of_the_paper() -> list[str]:
    rows = {row["stage"]: row["seconds"] for row in load("pair-paper.json")["rows"] if row["side"] == 420}
    words = {"whole pair": "one pair took {} s", "backbone": "{} s (backbone)", "refinement": "{} s (refinement)"}
    words |= {"features": "{} s (feature aggregation)", "correlation map": "{} s (correlation map)"}
    return [text.format(f"{rows[stage]:.2f}") for stage, text in words.items()]


def answers() -> list[str]:
    found = load("answers.json")["onnx"]
    return [
        f"{found['first answer, s']:.2f} s",
        f"{found['click, median s']:.3f} s",
        f"{found['propagated images a second']:.1f} images per second",
    ]


def one_thread() -> list[str]:
    found = load("engines.json")
    rates = sorted(found["pictures"] / turn["without Ray"]["local"] for turn in found["seconds"])
    return [f"{rates[0]:.1f} to {rates[-1]:.1f} images per second"]


def ray() -> list[str]:
    found = load("engines.json")
    return [
        f"| {name} | {100 * found[key]['ray_over_local'] - 100:.1f} % | {found[key]['two_workers_over_one']:.2f} ("
        for name, key in (
            ("Ray started for the run", "Ray started for the run"),
            ("Ray already running", "Ray running already"),
        )
    ]


def training_steps() -> list[str]:
    return [
        f"| `{row['recipe']}` | {row['side']} | {row['images_per_step']} | {row['cpu_seconds_per_image']:.2f} | "
        f"{row['bare_network_cpu_seconds_per_image']:.2f} |"
        for row in load("training-step.json")["rows"]
    ]


def scoring() -> list[str]:
    return [f"{load('scoring.json')['pairs']:,} pairs", f"took {load('scoring.json')['seconds']:.1f} s"]


def both_frames() -> list[str]:
    """Read PCK@0.1 per image of `lite` on PF-PASCAL in both frames."""
    text = (RESULTS / "lite" / "pf-pascal-val.md").read_text(encoding="utf-8")
    rows = (re.search(rf"^\| img \| {scale} \| image \|(.+)$", text, re.M) for scale in ("isotropic", "anisotropic"))
    isotropic, anisotropic = (row[1].split("|")[2].split()[0] for row in rows)
    assert float(isotropic) > float(anisotropic)
    return [isotropic, anisotropic]


def confidence_of_default() -> list[str]:
    found = load("default/calibration-report.json")
    called = found["share_called_matched"]
    return [
        f"expected calibration error {found['expected_calibration_error']:.3f}",
        f"{100 * called['present']:.0f} % of the present and {100 * called['absent']:.0f} % of the absent",
    ]


def categories_of_default() -> list[str]:
    text = (RESULTS / "default" / "spair-val.md").read_text(encoding="utf-8").split("## By category")[1]
    rows = [line.split(" | ") for line in text.split("\n## ")[0].splitlines() if line.startswith("| ")][2:]
    return [f"{row[0].strip('| ')} {int(float(row[5].split()[0]) + 0.5)}" for row in rows]


def curve_of_learning() -> list[str]:
    curve = load("learning.json")["seconds, step, pck"]
    return [f"rises from {curve[0][2]:.1f} to {curve[-1][2]:.1f} within {curve[-1][0]:.0f} s"]


def runtimes() -> list[str]:
    found = load("runtime/runtime.json")["times"]
    shown = {"first_match_seconds": 2, "encode_cpu_seconds": 2, "propagate_images_per_second": 1, "peak_mib": 0}
    return [" | ".join(f"{row[key]:.{digits}f}" for row in found) for key, digits in shown.items()]


def fine_tuning() -> list[str]:
    return [
        f"| {category} {row['draw'] + 1} | {100 * row['first']:.1f} | {100 * row['second']:.1f} | "
        f"{100 * (row['second'] - row['first']):+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f}) |"
        for category in ("car", "chair")
        for row in load(f"own-data-{category}.json")["draws"]
    ]


CARD = "mambamatcher/assets/lite/README.md"
DEFAULT_CARD = "mambamatcher/assets/default/README.md"


@pytest.mark.parametrize(
    ("page", "stated"),
    [
        ("docs/how-it-works.md", stages_of_the_paper),
        ("docs/status.md", answers),
        (CARD, answers),
        (CARD, one_thread),
        (CARD, both_frames),
        ("docs/evaluation.md", both_frames),
        ("docs/paper.md", both_frames),
        ("docs/evaluation.md", scoring),
        ("docs/training.md", training_steps),
        ("docs/scale.md", ray),
        (DEFAULT_CARD, confidence_of_default),
        (DEFAULT_CARD, categories_of_default),
        ("docs/training.md", curve_of_learning),
        ("docs/runtimes.md", runtimes),
        ("docs/tutorials/train-on-own-data.md", fine_tuning),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_page_states_what_its_result_file_says(page, stated):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert [each for each in stated() if each not in text] == []


def test_every_result_file_that_a_page_names_exists():
    for page in PAGES:
        for name in re.findall(r"`(benchmarks/results/[\w./-]+\.\w+)`", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_every_statement_of_the_paper_is_placed_in_the_code_and_graded():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    section = page.split("## Statement by statement")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    for statement, _, place, grade in rows:
        assert any(word in grade for word in ("letter", "choice", "**unverified**")), statement
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", place):
            assert (ROOT / "mambamatcher" / name).exists() or (ROOT / name).exists(), name
