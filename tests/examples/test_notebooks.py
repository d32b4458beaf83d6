"""Every notebook runs from begin to end, in a kernel of its own, and what it says of its results holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.shared import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
SECONDS = 300


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel", reason="notebooks need ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient")
    nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3",
                                     resources={"metadata": {"path": str(path.parent)}})  # fmt: skip
    client.execute()
    pictures = [o for c in notebook.cells for o in c.get("outputs", ()) if "image/png" in o.get("data", {})]
    assert pictures, "a notebook answers with a picture"
    if os.environ.get("SERQ_KEEP_NOTEBOOKS"):
        nbformat.write(notebook, Path(os.environ["SERQ_KEEP_NOTEBOOKS"]) / path.name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    """What a cell shows depends on the machine and makes every change large; the words say what to see."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
    words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert words.startswith("# ") and "## The answer" in words and "## What to try next" in words
