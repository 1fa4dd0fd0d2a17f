"""Every snippet of the documentation is run, page by page from top to bottom, in a folder with the sample pictures.

A snippet that cannot be run here says why, on the line before it: `<!-- not run: needs a GPU -->`. The reasons, and how
many snippets have each, are fixed below, so that none slips in unnoticed. Lines of shell that call `mambamatcher` run
in this process (a process each would take a minute for the imports alone), all others in a shell.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import mambamatcher
from mambamatcher.correlation import CORRELATION_AGGREGATIONS
from mambamatcher.features import FEATURE_AGGREGATIONS
from mambamatcher.presets import PRESETS
from mambamatcher.registry import Registry

ROOT = Path(__file__).parent.parent
SAMPLE = Path(mambamatcher.__file__).parent / "assets" / "sample"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL, PYTHON = ("bash", "console", "shell", "sh"), ("python", "py")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")

# why a snippet may be left out, and how many are
REASONS = {
    "installs packages": 3,
    "sets up or tests a copy of the repository": 3,
    "needs a benchmark's pictures": 3,
    "needs several machines": 1,
    "needs an account on a hub": 1,
    "runs until it is stopped": 2,
    "needs the server running": 1,
}


@dataclass(frozen=True)
class Snippet:
    """A fenced block: where it is, what it is written in, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        before = text[: fence.start()]
        reason = NOT_RUN.search(before)
        content = "\n".join(line.removeprefix(fence["indent"]) for line in fence["text"].splitlines())
        line = before.count("\n") + 1
        found.append(Snippet(page, line, fence["language"], content, reason[1] if reason else None))
    return found


def runnable(page: Path) -> list[Snippet]:
    return [each for each in snippets(page) if each.language in (*SHELL, *PYTHON)]


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
    lines = snippet.text.replace("\\\n", " ").splitlines()
    if snippet.language == "console":  # lines without a prompt are what was printed
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "mambamatcher" and not set(words) & {"|", ">", "&&"}:
            run_command(words[1:], snippet)
        else:
            subprocess.run(["bash", "-euc", line], check=True)


def run_command(words: list[str], snippet: Snippet) -> None:
    from typer.testing import CliRunner

    from mambamatcher.cli import app

    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise AssertionError(
            f"{snippet.place}: mambamatcher {shlex.join(words)} ended with {done.exit_code}\n{done.output}"
        ) from done.exception


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.stem)
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch):
    for name, copy in (("source.png", "dog.png"), ("target.png", "other-dog.png"), ("points.json", "dog.json")):
        shutil.copy(SAMPLE / name, tmp_path / copy)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{Path('/usr/bin')}:/bin")
    modeling = pytest.importorskip("transformers.models.mamba.modeling_mamba")
    monkeypatch.setattr(modeling, "mamba_selective_scan", modeling.mamba_selective_scan)  # a page exchanges it
    names = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "docs_page", names)
    names.__name__ = "docs_page"  # dataclasses look their module up
    with restored(CORRELATION_AGGREGATIONS, FEATURE_AGGREGATIONS, PRESETS):
        for snippet in runnable(page):
            if snippet.reason is not None:
                continue
            if snippet.language in PYTHON:
                run_python(snippet, names)
            else:
                run_shell(snippet)


def test_what_is_not_run_has_one_of_the_known_reasons_and_is_counted():
    left_out = [each for page in PAGES for each in runnable(page) if each.reason is not None]
    unknown = [f"{each.place}: {each.reason}" for each in left_out if each.reason not in REASONS]
    assert not unknown, f"not a known reason to leave a snippet out: {unknown}; run it, or add the reason to REASONS"
    assert Counter(each.reason for each in left_out) == REASONS


def test_every_block_says_its_language_so_that_none_escapes():
    nameless = [each.place for page in PAGES for each in snippets(page) if not each.language]
    assert not nameless, f"write ```text, ```bash, ```python ... at {nameless}"


def test_no_page_says_that_a_block_is_not_run_without_a_block():
    for page in PAGES:
        said = len(re.findall(r"<!-- not run: .+? -->", page.read_text(encoding="utf-8")))
        assert said == sum(each.reason is not None for each in runnable(page)), page
