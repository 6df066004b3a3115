"""The tutorial notebook runs from its first cell to its last, and shows what it says."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def shown(cell):
    """All that a cell put out, as text, and the kinds of it."""
    data = [output.get("data", {"text/plain": output.get("text", "")}) for output in cell["outputs"]]
    return " ".join(str(d.get("text/plain", "")) for d in data), {kind for d in data for kind in d}


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first, kinds = shown(cells[0])
    assert "fedavg on digits: 15 of 15 rounds, accuracy" in first  # the live line, as it ended
    assert "<askew.Result fedavg on digits" in first
    assert "text/html" in kinds
    assert "the whole test set (360 examples)" in shown(cells[1])[0]
    assert "image/png" in shown(cells[2])[1]
    assert "text/html" in shown(cells[3])[1]  # a data frame
    assert "balanced_accuracy" in shown(cells[5])[0]
    assert shown(cells[7])[0].count("±") == 3
    assert not list(tmp_path.iterdir())  # it writes nothing


def test_the_notebook_holds_no_outputs_and_no_long_lines():
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs")
        assert all(len(line) <= 121 for line in cell["source"])  # with its end
