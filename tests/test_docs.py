"""Every snippet of the documentation is run, page by page from top to bottom, in a folder with the sample images.

A snippet that cannot be run here says why, on the line before it: `<!-- not run: needs a GPU -->`, with one of the
reasons below. Text right after a command is what it prints; numbers in it may differ. Lines of shell that call
`mambamatcher` run in this process (a process each would take a minute for the imports alone), all others in a shell.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest

import mambamatcher
from mambamatcher.matching.confidence import load_calibration
from mambamatcher.model.correlation import CORRELATION_AGGREGATIONS
from mambamatcher.model.features import FEATURE_AGGREGATIONS
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import SHIPPED
from mambamatcher.registry import Registry

ROOT = Path(__file__).parent.parent
ASSETS = Path(mambamatcher.__file__).parent / "assets"
SAMPLE_IMAGES = {
    **{path.name: path for path in (ASSETS / "photos").iterdir() if path.suffix in (".jpg", ".json")},
    "dog.png": ASSETS / "sample" / "source.png",
    "other-dog.png": ASSETS / "sample" / "target.png",
    "dog.json": ASSETS / "sample" / "points.json",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("bash", "python")
SHOWN = ("text", "json")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")

# why a snippet may be left out
REASONS = {
    "installs packages",
    "takes minutes",
    "sets up or tests a copy of the repository",
    "needs a benchmark's pictures",
    "needs several machines",
    "needs an account on a hub",
    "runs until it is stopped",
    "needs the server running",
    "needs an annotation tool",
}


@dataclass(frozen=True)
class Snippet:
    """A fenced block: where it is, what it is written in, why it is not run, if it is not, and what it should print."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None = None
    printed: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in zip_longest(fences, fences[1:]):
        before = text[: fence.start()]
        reason = NOT_RUN.search(before)
        shows_output = after and after["language"] in SHOWN and not text[fence.end() : after.start()].strip()
        found.append(
            Snippet(
                page,
                before.count("\n") + 1,
                fence["language"],
                _content(fence),
                reason=reason[1] if reason else None,
                printed=_content(after) if after and shows_output else None,
            )
        )
    return found


def _content(fence: re.Match[str]) -> str:
    return "\n".join(line.removeprefix(fence["indent"]) for line in fence["text"].splitlines())


def runnable(page: Path) -> list[Snippet]:
    return [each for each in snippets(page) if each.language in RUN]


@contextmanager
def restored(*registries: Registry) -> Iterator[None]:
    """Take out of the registries what a page has added to them."""
    before = [dict(registry._entries) for registry in registries]
    try:
        yield
    finally:
        for registry, entries in zip(registries, before, strict=True):
            registry._entries.clear()
            registry._entries.update(entries)


def run_python(snippet: Snippet, names: ModuleType) -> None:
    # at its own line, so that a traceback shows where on the page it went wrong
    code = compile("\n" * snippet.line + snippet.text, str(snippet.page), "exec")
    exec(code, names.__dict__)


def run_shell(snippet: Snippet) -> None:
    printed = ""
    for line in snippet.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "mambamatcher" and not set(words) & {"|", ">", "&&"}:
            printed += run_command(words[1:], snippet)
        else:
            printed += subprocess.run(["bash", "-euc", line], check=True, stdout=subprocess.PIPE, text=True).stdout
    if snippet.printed is not None:
        assert _without_numbers(printed) == _without_numbers(snippet.printed), f"{snippet.place} prints\n{printed}"


def _without_numbers(text: str) -> str:
    return "".join(NUMBER.sub("0", text).split())


def run_command(words: list[str], snippet: Snippet) -> str:
    from typer.testing import CliRunner

    from mambamatcher.cli import app

    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise AssertionError(
            f"{snippet.place}: mambamatcher {shlex.join(words)} ended with {done.exit_code}\n{done.output}"
        ) from done.exception
    return done.stdout


def run(page: Path, names: ModuleType) -> None:
    for snippet in runnable(page):
        if snippet.reason is None and snippet.language == "python":
            run_python(snippet, names)
        elif snippet.reason is None:
            run_shell(snippet)


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.stem)
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch):
    for name, path in SAMPLE_IMAGES.items():
        shutil.copy(path, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{Path('/usr/bin')}:/bin")
    modeling = pytest.importorskip("transformers.models.mamba.modeling_mamba")
    monkeypatch.setattr(modeling, "mamba_selective_scan", modeling.mamba_selective_scan)  # a page exchanges it
    names = ModuleType("docs_page")
    monkeypatch.setitem(sys.modules, "docs_page", names)  # dataclasses look their module up
    with restored(CORRELATION_AGGREGATIONS, FEATURE_AGGREGATIONS, PRESETS):
        run(page, names)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "import mambamatcher\nmambamatcher.no_such_name"),
        ("bash", "mambamatcher no-such-command"),
        ("bash", "true | false"),
        ("bash", "echo one\n```\n\n```text\ntwo"),
    ],
)
def test_a_broken_snippet_is_noticed(language, text, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"```{language}\n{text}\n```\n")
    with pytest.raises((AssertionError, AttributeError, subprocess.CalledProcessError)):
        run(page, ModuleType("docs_page"))
    page.write_text(f"<!-- not run: needs several machines -->\n```{language}\n{text}\n```\n")
    run(page, ModuleType("docs_page"))


def test_what_is_not_run_has_one_of_the_known_reasons():
    left_out = [each for page in PAGES for each in runnable(page) if each.reason is not None]
    unknown = [f"{each.place}: {each.reason}" for each in left_out if each.reason not in REASONS]
    assert not unknown, f"not a known reason to leave a snippet out: {unknown}; run it, or add the reason to REASONS"
    assert {each.reason for each in left_out} == REASONS, "a reason that no snippet has any more"


def test_every_block_says_its_language_so_that_none_escapes():
    known = (*RUN, *SHOWN)
    others = [each.place for page in PAGES for each in snippets(page) if each.language not in known]
    assert not others, f"write ```bash or ```python to have it run, else one of {SHOWN}, at {others}"


def test_every_block_of_json_is_json():
    for page in PAGES:
        for each in snippets(page):
            if each.language == "json":
                json.loads(each.text)


def test_no_page_says_that_a_block_is_not_run_without_a_block():
    for page in PAGES:
        said = len(re.findall(r"<!-- not run: .+? -->", page.read_text(encoding="utf-8")))
        assert said == sum(each.reason is not None for each in runnable(page)), page


def test_the_page_on_confidence_states_what_was_measured_for_the_model_that_comes_with_the_package():
    report = json.loads((ROOT / "benchmarks" / "results" / "default" / "calibration-report.json").read_text())
    assert asdict(load_calibration(SHIPPED["default"])) == report["calibration"], (
        "the report is another model's: calibrate again"
    )
    page = (ROOT / "docs" / "confidence.md").read_text(encoding="utf-8")
    stated = [
        f"{report['pairs']} pairs",
        f"{report['points']:,} points",
        f"of which {report['points_absent_in_target']} have no",
        f"{100 * report['share_correct']:.0f} % of the matches",
        f"expected calibration error is {report['expected_calibration_error']:.3f}",
        f"calibration error of {report['expected_calibration_error_of_defaults']:.2f}",
        f"threshold of this model, {report['calibration']['threshold']:.2f}",
        f"calls {100 * report['share_called_matched']['present']:.0f} %",
        f"and {100 * report['share_called_matched']['absent']:.0f} %",
    ]
    for share, risk in report["risk_at_coverage"].items():
        kept = "all" if share == "1" else f"{100 * float(share):.0f} %"
        stated.append(f"| {kept} | {100 * risk:.0f} % |")
    assert [each for each in stated if each not in page] == []


def test_every_file_that_contributing_names_exists():
    page = (ROOT / "docs" / "contributing.md").read_text()
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", page))
    assert len(named) > 30
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "mambamatcher" / name).exists()]
    missing = [name for name in missing if not (ROOT / "mambamatcher" / "model" / name).exists()]
    assert not missing
