"""The base install: what `pip install mambamatcher` gives in an environment of its own, without PyTorch."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.datasets import releases

ROOT = Path(__file__).parents[1]
PHOTOS = ROOT / "mambamatcher" / "assets" / "photos"
CAT, RACCOON, POINTS = (str(PHOTOS / name) for name in ("cat.jpg", "raccoon.jpg", "cat.json"))
ABSENT = ("torch", "scipy", "numba", "transformers", "matplotlib", "huggingface_hub", "einops", "fastapi", "ray")
LIMIT = 250_000_000  # bytes of site-packages, without the weights


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """Make the environment once for all processes of a test run."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    environment, done = shared / "base-install", shared / "base-install.done"
    with (shared / "base-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            install = ["-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", "--editable", "."]
            subprocess.run([environment / "bin" / "python", *install], cwd=ROOT, check=True)
            done.touch()
    return environment / "bin"


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    # the packages of this process must not be found there
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)


def printed(command: list[str | Path], folder: Path) -> str:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_below_90_mb_and_has_only_the_shipped_models(tmp_path):
    source = tmp_path / "source"  # building in the repository itself would leave a folder there
    shutil.copytree(ROOT / "mambamatcher", source / "mambamatcher", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "wheels"), str(source)]
    subprocess.run([sys.executable, *wheel], check=True)
    (built,) = (tmp_path / "wheels").iterdir()
    assert built.stat().st_size < 90_000_000
    with ZipFile(built) as archive:
        weights = {name for name in archive.namelist() if name.endswith(".safetensors")}
    assert weights == {f"mambamatcher/assets/{model}/model.safetensors" for model in ("default", "lite")}


def test_it_is_small_and_has_no_pytorch(base, tmp_path):
    packages = Path(printed([base / "python", "-c", "import numpy; print(numpy.__path__[0])"], tmp_path).strip()).parent
    assert not [name for name in ABSENT if (packages / name).exists()]
    assert sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) <= LIMIT


@pytest.mark.parametrize("model", ["default", "lite"])
def test_match(base, model, tmp_path):
    command = [base / "mambamatcher", "match", CAT, RACCOON, "--points-file", POINTS, "--model", model, "--json"]
    found = json.loads(printed([*command, "--out", "matches.png", "--heatmap", "heat.png"], tmp_path))
    assert len(found["matches"]) == 6
    assert {path.name for path in tmp_path.iterdir()} == {"matches.png", "heat.png"}


def test_propagate(base, tmp_path):
    command = [base / "mambamatcher", "propagate", CAT, PHOTOS, "--points-file", POINTS, "--model", "lite"]
    printed([*command, "--out", "annotated"], tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "annotated" / "points.jsonl").read_text().splitlines()[1:]]
    assert {line["image"] for line in lines} == {path.name for path in PHOTOS.glob("*.jpg")}
    assert all(len(line["points"]) == 6 for line in lines)


def test_warp_a_mask(base, tmp_path):
    mask = ["--mask", RACCOON, "--out", "mask.png", "--model", "lite"]
    assert "has a match" in printed([base / "mambamatcher", "warp", RACCOON, CAT, *mask], tmp_path)


def test_evaluate_rescore_and_compare(base, tmp_path):
    releases.write_spair(tmp_path, [releases.spair_annotation(f"{number:06d}-one-two:cat") for number in range(3)])
    on = ["--dataset", "spair", "--split", "test", "--root", str(tmp_path), "--json"]
    verb = base / "mambamatcher"
    report = json.loads(printed([verb, "evaluate", "lite", *on, "--out", "one"], tmp_path))
    again = json.loads(printed([verb, "evaluate", "one/predictions.jsonl", *on, "--out", "two"], tmp_path))
    assert report["pairs"] == 3
    assert again["scores"] == report["scores"]
    rows = json.loads(printed([verb, "compare", "one/report.json", "two/report.json", "--json"], tmp_path))
    assert {row["p_point"] for row in rows["comparisons"]} == {1.0}


@pytest.mark.parametrize("verb", [["--help"], ["match", "--help"], ["train", "--help"], ["data", "verify", "--help"]])
def test_help(base, verb, tmp_path):
    assert "Usage" in printed([base / "mambamatcher", *verb], tmp_path)


def test_python_interface(base, tmp_path):
    script = f"""
import sys
from mambamatcher import Matcher, MambaMatcherError
result = Matcher.from_pretrained("lite").match({CAT!r}, {RACCOON!r}, points=[(264, 238), (319, 139)], top_k=2)
result.save("matches.png")
result.to_json("matches.json")
print(result.points.shape, result.confidence.shape, result.matched.dtype, result.heatmap(0).ndim)
for wanted in ("MambaMatcher", "presets"):
    try:
        getattr(sys.modules["mambamatcher"], wanted)
    except MambaMatcherError as error:
        print(error)
try:
    Matcher.from_pretrained("someone/model")
except MambaMatcherError as error:
    print(error)
"""
    assert printed([base / "python", "-c", script], tmp_path).splitlines() == [
        "(2, 2) (2,) bool 2",
        "torch is not installed; run: pip install 'mambamatcher[torch]'",
        "torch is not installed; run: pip install 'mambamatcher[torch]'",
        "huggingface_hub is not installed; run: pip install 'mambamatcher[hub]'",
    ]


@pytest.mark.parametrize(
    ("verb", "extra"),
    [
        (["match", CAT, RACCOON, "--model", "nearest"], "torch"),
        (["match", CAT, RACCOON, "--runtime", "torch"], "torch"),
        (["info"], "torch"),
        (["train", "--recipe", "vit-s", "--out", "run"], "train"),
        (["export", "--onnx", "lite.onnx"], "export"),
        (["serve"], "web"),
        (["propagate", CAT, "clip.mp4", "--points-file", POINTS, "--out", "tracked"], "video"),
        (["features", str(PHOTOS), "--out", "features"], "scale"),
        (["reproduce", "list"], "paper"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:20],
)
def test_what_needs_an_extra_says_so(base, verb, extra, tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"a video by its name")
    done = run([base / "mambamatcher", *verb], tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.rstrip().endswith(f"run: pip install 'mambamatcher[{extra}]'")
