# SPDX-License-Identifier: Apache-2.0
"""The first notebook runs from top to bottom on a results file, with its trace and without."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from story import write_story

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "analysis" / "compare_allocators.ipynb"


def _run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """All text that the notebook put out."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "analysis"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return "\n".join(
        output.get("text", "") or str(output.get("data", {}).get("text/html", ""))
        for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)


@pytest.mark.thorough
def test_runs_on_results_and_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, trace = write_story(tmp_path)
    monkeypatch.setenv("HEAPTAPE_RESULTS", str(results))
    monkeypatch.setenv("HEAPTAPE_TRACE", str(trace))
    text = _run(tmp_path, monkeypatch)
    assert "mimalloc is fastest" in text
    assert "python3 job.py" in text
    assert text.count("<svg") >= 3


@pytest.mark.thorough
def test_runs_where_the_trace_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, trace = write_story(tmp_path)
    trace.unlink()
    monkeypatch.setenv("HEAPTAPE_RESULTS", str(results))
    monkeypatch.delenv("HEAPTAPE_TRACE", raising=False)
    text = _run(tmp_path, monkeypatch)
    assert "No trace" in text
    assert "mimalloc is fastest" in text


def test_no_outputs_are_stored() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not c.outputs and c.execution_count is None for c in notebook.cells if c.cell_type == "code")
