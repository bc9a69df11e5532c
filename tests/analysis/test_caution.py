# SPDX-License-Identifier: Apache-2.0
"""What is said of a program most of whose memory is not from malloc, before anything else and with every verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import results_factory
from heaptape import read_results, write_report
from heaptape.__main__ import main
from heaptape.results.caution import HeapShare, baseline_caution, caution, heap_caution, heap_share, zeroed_line

SEEN = {"rss_peak_bytes": 84_100_000, "explained_bytes": 84_000_000, "own_bytes": 100_000}
UNSEEN = {"rss_peak_bytes": 84_100_000, "explained_bytes": 12_000, "own_bytes": 83_200_000}
SENTENCE = ("Caution: the recorded heap explains 0.01 of 84.1 MB of anonymous memory: most of this program's memory does not "
            "come from malloc; its own mappings, stacks and data hold 83.2 MB.")


def _results(folder: Path, of_trace: dict[str, int]) -> Path:
    rows = results_factory.schedule(6)
    for row in rows:
        row["trace"] |= of_trace
    return results_factory.write(folder / "r.jsonl", rows)


def test_compare_says_so_first_and_with_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(_results(tmp_path, UNSEEN))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == SENTENCE
    assert lines[-1].startswith(f"{SENTENCE} Of malloc's part alone: ") and "mimalloc is fastest" in lines[-1]


@pytest.mark.thorough
def test_for_machines_and_wikis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = str(_results(tmp_path, UNSEEN))
    assert main(["compare", "--json", results]) == 0
    found = json.loads(capsys.readouterr().out)[0]
    assert found["caution"] == SENTENCE and found["headline"].startswith(SENTENCE)
    assert main(["compare", "--markdown", results]) == 0
    assert capsys.readouterr().out.startswith(f"**{SENTENCE}")


@pytest.mark.thorough
def test_the_report_leads_with_it(tmp_path: Path) -> None:
    page = write_report(read_results(_results(tmp_path, UNSEEN)), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "most of this program's memory does not come from malloc" in page.split("</h1>")[0]


@pytest.mark.thorough
@pytest.mark.parametrize("of_trace", [SEEN, {}], ids=["seen", "not known"])
def test_ordinary_programs_are_not_cautioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], of_trace: dict[str, int]
) -> None:
    results = _results(tmp_path, of_trace)
    assert main(["compare", "--json", str(results)]) == 0
    found = json.loads(capsys.readouterr().out)[0]
    assert found["caution"] is None and "aution" not in found["headline"]
    page = write_report(read_results(results), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "does not come from malloc" not in page


def test_the_trace_is_asked_first() -> None:
    runs = pd.DataFrame({f"trace_{key}": [value] for key, value in SEEN.items()})
    totals = {"recorded_rss_peak_bytes": 84_100_000, "recorded_heap_rss_peak_bytes": 200_000,
              "recorded_own_peak_bytes": 300_000}
    assert caution(runs) == ""
    assert heap_share(runs, totals) == HeapShare(84_100_000, 200_000, 300_000)  # a trace of before it was counted
    assert heap_share(runs, totals | {"recorded_explained_bytes": 5_000}) == HeapShare(84_100_000, 5_000, 300_000)
    odd = {"recorded_rss_peak_bytes": "much", "recorded_explained_bytes": None, "recorded_own_peak_bytes": True}
    assert heap_share(runs, odd) == HeapShare(84_100_000, 84_000_000, 100_000)
    assert heap_share(pd.DataFrame({"trace_rss_peak_bytes": ["x"]}), odd) is None


@pytest.mark.thorough
def test_what_calloc_wrote_while_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = _results(tmp_path, {"touched_bytes": 40_000_000, "zeroed_bytes": 24_000_000})
    sentence = "60 % of the memory at the peak (24.0 MB) is what calloc wrote while recording; "
    assert main(["compare", str(results)]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert sentence in write_report(read_results(results), tmp_path / "r.html").read_text(encoding="utf-8")
    runs = pd.DataFrame({"touch": ["recorded"], "trace_touched_bytes": [4e7], "trace_zeroed_bytes": [2e6]})
    assert zeroed_line(runs) == ""  # so much is no news
    assert zeroed_line(runs.assign(trace_zeroed_bytes=3e7, touch="none")) == ""


def test_the_check_of_the_middle_run_is_taken() -> None:
    checks = [{"peak_error": error, "words": words} for error, words in ((0.5, "high"), (0.1, None), (-0.5, "low"), (0.06, "middle"), (0.03, None))]
    frame = pd.DataFrame({"baseline_check": [{}, *checks]})
    assert baseline_caution(frame) == "Caution: middle."
    assert baseline_caution(frame.iloc[[0, 1, 2, 5]]) == ""
    assert baseline_caution(frame.iloc[:1]) == baseline_caution(pd.DataFrame({"pass": ["time"]})) == ""


def test_what_is_not_known_of_the_heap() -> None:
    runs = pd.DataFrame({"allocator": ["glibc"]})
    totals = {"recorded_heap_rss_peak_bytes": None, "recorded_heap_rss_low_bytes": 10_500_000,
              "recorded_heap_rss_high_bytes": 487_000_000, "peak_live_bytes": 1}
    words = "Caution: how much of the recorded program's memory was in its heap is unknown: 10.5 to 487.0 MB."
    assert heap_caution(runs, totals) == words
    assert heap_caution(runs.assign(trace_heap_low_bytes=10_500_000.0, trace_heap_high_bytes=487_000_000.0)) == words
    assert heap_caution(runs.assign(trace_heap_low_bytes=None, trace_heap_high_bytes=None), {}) == ""


def test_a_heap_of_many_times_its_blocks() -> None:
    runs = pd.DataFrame({"allocator": ["glibc"]})
    swollen = {"recorded_heap_rss_peak_bytes": 320_000_000, "peak_live_bytes": 5_200_000}
    assert "held 320.0 MB at its peak, and its blocks never more than 5.2 MB" in heap_caution(runs, swollen)
    assert heap_caution(runs, swollen | {"peak_live_bytes": 100_000_000}) == ""
    assert heap_caution(runs, swollen | {"peak_live_bytes": None}) == ""
