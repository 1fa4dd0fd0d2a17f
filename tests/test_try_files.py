"""The files of the page that needs no server, without a browser."""

import re
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRY = ROOT / "docs" / "try"
RUNTIME = TRY / "onnxruntime-web"


def test_the_vendored_files_are_those_that_their_readme_lists():
    listed = re.findall(r"^\| `(.+?)` \| ([\d,]+) \| `(.+?)` \|$", (RUNTIME / "README.md").read_text(), re.M)
    contents = {path.name: path.read_bytes() for path in RUNTIME.iterdir() if path.suffix in (".mjs", ".wasm")}
    assert listed
    assert {name: (int(size.replace(",", "")), digest) for name, size, digest in listed} == {
        name: (len(content), sha256(content).hexdigest()) for name, content in contents.items()
    }


def test_all_vendored_files_together_have_less_than_15_megabytes():
    assert sum(path.stat().st_size for path in RUNTIME.iterdir()) < 15e6


def test_the_worker_answers_every_request_that_the_page_makes_to_a_server():
    exported = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.M)
    served = ROOT / "mambamatcher" / "web" / "static"
    pages = [path for path in served.glob("*.js") if not path.name.startswith("review")]
    called = {name for path in pages for name in re.findall(r"\bapi\.(?!js)(\w+)", path.read_text("utf-8"))}
    called |= {"signIn"}  # imported by name
    offered = [set(exported.findall((folder / "api.js").read_text("utf-8"))) for folder in (served, TRY / "static")]
    assert called <= offered[0]
    assert called <= offered[1]


def test_no_file_of_the_page_names_another_site():
    for path in (TRY / "static").iterdir():
        assert not re.search(
            r"(https?:)?//[\w-]+\.\w", re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.M)
        ), path
