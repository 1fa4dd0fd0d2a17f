"""The examples in the package's docstrings run and print what they say."""

import ast
import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import mambamatcher

ROOT = Path(mambamatcher.__file__).parent
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FEWEST = 10


def paths_with_examples() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if ">>>" in path.read_text(encoding="utf-8"))


def load(path: Path) -> ModuleType | None:
    """Import a module of the package, unless an optional dependency is missing."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    try:
        return import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("mambamatcher"):
            raise
        return None


def examples(path: Path, module: ModuleType) -> Iterator[doctest.DocTest]:
    """Read docstrings from the source: doctest's own finder skips decorated functions, and jaxtyping decorates all."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, DOCUMENTED) and ">>>" in (text := ast.get_docstring(node) or ""):
            name = f"{module.__name__}.{getattr(node, 'name', '')}".rstrip(".")
            line = node.body[0].lineno - 1
            yield doctest.DocTestParser().get_doctest(text, dict(vars(module)), name, str(path), line)


def test_every_example_in_a_docstring_prints_what_it_says():
    runner, report, ran = doctest.DocTestRunner(), [], []
    for path in paths_with_examples():
        if (module := load(path)) is not None:
            for example in examples(path, module):
                runner.run(example, out=report.append)
                ran.append(example.name)
    assert not runner.failures, "".join(report)
    assert len(ran) >= FEWEST, ran
