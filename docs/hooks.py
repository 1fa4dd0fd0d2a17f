"""What mkdocs does here beside turning pages into HTML: it writes the command reference, brings in the measurements
of `benchmarks/results`, lists pages that are there, and refuses a page that would load anything from elsewhere.
"""

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from typer import Context
from typer.main import get_command

COMMANDS = "<!-- every command -->"
MEASURED = "measured"
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
OPTIONAL = {"paper.md": "The paper's results", "scale.md": "Many images, many machines"}
_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|link|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\"'\s>]*", re.I
)
_OUTSIDE = re.compile(r"\]\(((?:\.\./)+)benchmarks/results/([\w-]+\.md)\)")


def on_startup(command: str, dirty: bool) -> None:
    """Let warnings through `--quiet`, which would keep them from `--strict` too: nothing would ever be refused."""
    logger = logging.getLogger("mkdocs")
    logger.setLevel(min(logger.level, logging.WARNING))


def on_config(config: Any) -> Any:
    """Add to the navigation what is there: pages that come with a measurement, and the measurements."""
    depth = next(section["In depth"] for section in config.nav if "In depth" in section)
    docs = Path(config.docs_dir)
    depth += [{title: name} for name, title in OPTIONAL.items() if (docs / name).is_file()]
    measured = [{path.stem: f"{MEASURED}/{path.name}"} for path in sorted(RESULTS.glob("*.md"))]
    if measured:
        depth.append({"Measurements": measured})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Make pages of the files in `benchmarks/results`."""
    for path in sorted(RESULTS.iterdir()):
        if path.suffix in {".md", ".png"}:
            files.append(File.generated(config, f"{MEASURED}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write the command reference, and lead links to the measurements to where the site has them."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, describe_commands())
    up = "../" * page.file.src_uri.count("/")
    return _OUTSIDE.sub(lambda found: f"]({up}{MEASURED}/{found[2]})", markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuse what a reader's browser would have to fetch from another site."""
    if found := _ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    return output


def describe_commands() -> str:
    """Return every command of the command line with its options, as Markdown."""
    from mambamatcher.cli import app

    return "\n".join(_describe(get_command(app), ""))


def _describe(command: Any, name: str) -> list[str]:
    children = getattr(command, "commands", {})
    if children:
        return [line for child in children.values() for line in _describe(child, f"{name} {child.name}".strip())]
    text, _, example = (command.help or "").partition("Example: ")
    lines = [f"## {name}", "", *(" ".join(part.split()) + "\n" for part in text.strip().split("\n\n"))]
    if example:
        lines += ["```bash", " ".join(example.split()), "```", ""]
    lines += ["| write | meaning |", "|---|---|", *(_row(parameter, Context(command)) for parameter in command.params)]
    return [*lines, ""]


def _row(parameter: Any, context: Context) -> str:
    """Make a row of what `--help` says of an argument or option: what is written, and what it means."""
    written, said = parameter.get_help_record(context)
    written = written.partition(" / --no-")[0].replace(" range>", ">")
    written = re.sub(r"<list\[(.+)\]>", r"<\1> ...", written)
    if parameter.param_type_name == "argument":
        written = written.partition(" <")[0].upper()
    meaning, _, limits = said.partition("  [")
    if limits and not limits.startswith("default: no-"):
        meaning += f" *{limits.removesuffix(']')}*"
    return f"| `{written}` | {meaning.replace('|', '&#124;')} |"
