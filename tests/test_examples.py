"""The example notebook runs, and shows what the shipped model gives.

`python -m tests.test_examples` runs it and stores its outputs again, after a new model was shipped.
"""

import re
from pathlib import Path

import numpy as np
import pytest

nbformat = pytest.importorskip("nbformat", reason="the dev extra is not installed")
nbclient = pytest.importorskip("nbclient", reason="the dev extra is not installed")
pytest.importorskip("ipykernel", reason="the dev extra is not installed")

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def execute(folder: Path):
    """Return a copy of the notebook with the outputs of a run in `folder`."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    return nbclient.NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(folder)}}
    ).execute()


def printed(notebook) -> str:
    """Return what the cells print; log lines go to stderr and differ between runs."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(each.text for each in outputs if each.output_type == "stream" and each.name == "stdout")


def test_the_quickstart_runs_and_its_stored_outputs_are_those_of_the_shipped_model(tmp_path):
    stored, ran = printed(nbformat.read(NOTEBOOK, as_version=4)), printed(execute(tmp_path))
    assert NUMBER.sub("0", ran) == NUMBER.sub("0", stored)
    # half a pixel: other machines add up in another order
    numbers = [np.array(NUMBER.findall(text), dtype=float) for text in (ran, stored)]
    np.testing.assert_allclose(*numbers, atol=0.5, err_msg="refresh the outputs with python -m tests.test_examples")


def test_the_quickstart_shows_pictures_and_stays_small():
    stored = nbformat.read(NOTEBOOK, as_version=4)
    shown = [
        output for cell in stored.cells for output in cell.get("outputs", ()) if "image/jpeg" in output.get("data", {})
    ]
    assert len(shown) == 3
    assert NOTEBOOK.stat().st_size < 1_500_000


def refresh() -> None:
    """Run the notebook and store its outputs."""
    notebook = execute(NOTEBOOK.parent)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}  # the rest is this machine's
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    refresh()
