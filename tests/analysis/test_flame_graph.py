# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of the heap, and trees of an allocator's functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import naive_writer
import pandas as pd
import pytest
from heaptape import read_trace
from heaptape.command_line import main
from heaptape.report.flame_graph import flame_figure, profile_figure
from heaptape.results.counted import profiles_of
from heaptape.sites.figures import site_figures
from heaptape.sites.frames import Stacks
from heaptape.sites.table import by_place, call_tree
from naive_writer import Event, TraceSpec, sites_of
from test_report_in_browser import _in_browser

MALLOC = 1
STACKS = [["xmalloc@util.c:7", "read<T>@read.c:20", "main@main.c:3"], ["fill@fill.cc:5", "main@main.c:5"], ["libplugin.so+0x1234", "main@main.c:6"],
          ["tiny@main.c:9", "main@main.c:7"]]
SIZES = [(1, 600), (1, 150), (2, 249), (3, 1000), (4, 1)]


@pytest.fixture(name="trace")
def _trace(tmp_path: Path) -> Path:
    events = [Event(MALLOC, 0, 0, 1000 * slot, slot, size, site=site) for slot, (site, size) in enumerate(SIZES, start=1)]
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(STACKS)))[0])
    return path


def test_cells_are_as_wide_as_their_shares(trace: Path) -> None:
    with read_trace(trace) as opened:
        sites, stacks = site_figures(opened).sites, Stacks(opened.sites)
    figure = flame_figure(call_tree(sites, stacks), by_place(sites, stacks))
    first, *others = figure.body.split("<details")[1:]
    assert first.startswith(' class="flame" open><summary>Bytes requested: 2.00 kB</summary>') and not any(" open" in other[:30] for other in others)
    cells = re.findall(r'<svg class="cell c\d" x="([\d.]+)%" y="(\d+)" width="([\d.]+)%" height="17"><rect[^>]*><title>[^<]*</title></rect><text[^>]*>([^<]*)<', first)
    assert sorted((int(y) // 18, float(x), float(width), label) for x, y, width, label in cells) == [
        (0, 0, 100, "[all]"), (1, 0, 100, "main"), (2, 0, 50, "libplugin.so+0x1234"), (2, 50, 37.5, "read&lt;T&gt;"), (2, 87.5, 12.45, "fill"),
        (3, 50, 37.5, "xmalloc")]
    assert "read&lt;T&gt; (read.c:20): 750 B, 38 %" in first
    assert figure.table.rows[0] == ["libplugin.so+0x1234", "1.00 kB", "1", "1.00 kB", "1.00 kB"] and len(figure.table.rows) == 4


ACT = """
const labels = () => [...d.querySelectorAll('.flame[open] .cell')].filter((cell) => cell.getClientRects().length)
  .map((cell) => cell.textContent + ' ' + Math.round(parseFloat(cell.getAttribute('width'))));
const cell = (label) => [...d.querySelectorAll('.flame[open] .cell')].find((one) => one.textContent === label);
const input = d.querySelector('.find input'), said = d.querySelector('.find [role=status]'), button = d.querySelector('.find button');
const found = { before: labels(), disabled: button.disabled };
cell('read<T>').dispatchEvent(new w.MouseEvent('click', { bubbles: true }));
found.zoomed = labels();
button.click();
found.whole = labels();
input.value = 'FILL';
input.dispatchEvent(new w.Event('input'));
found.said = said.textContent;
found.match = d.querySelectorAll('.flame[open] .match').length;
input.dispatchEvent(new w.KeyboardEvent('keydown', { key: 'Enter' }));
found.searched = labels();
const rect = cell('fill').querySelector('rect');
rect.dispatchEvent(new w.PointerEvent('pointermove', { bubbles: true }));
found.tip = d.querySelector('.tip').textContent;
return found;
"""


@pytest.mark.thorough
def test_zoom_and_search(heaptape_binary: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(heaptape_binary.with_name("replay")))
    page = trace.with_name("p.html")
    assert main(["explain", "-q", "--budget", "0", "--alloc", "glibc", "--html", str(page), str(trace)]) == 0
    found, console = _in_browser(page, 1200, ACT)
    whole = ["[all] 100", "main 100", "libplugin.so+0x1234 50", "read<T> 38", "xmalloc 38", "fill 12"]
    assert not console and sorted(found["before"]) == sorted(found["whole"]) == sorted(whole) and found["disabled"]
    assert sorted(found["zoomed"]) == ["[all] 100", "main 100", "read<T> 100", "xmalloc 100"]
    # In each of the four graphs, and in that of the holes where it holds any.
    assert re.match(r"[45] found; Enter shows the widest", found["said"]) and found["match"] == 1
    assert sorted(found["searched"]) == ["[all] 100", "fill 100", "main 100"] and found["tip"].startswith("fill (fill.cc:5): 249 B, 12 %")


SAMPLED_STACKS = [{"frames": ["malloc"], "samples": 6}, {"frames": ["malloc", "carve"], "samples": 4}]


def counts(**changes: Any) -> dict[str, Any]:
    return {"allocator": {"instructions": 1000}, "profile": {"samples": 10, "stacks": SAMPLED_STACKS}} | changes


def runs(of: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"allocator": "glibc", "pass": "count", "failures": 0, "counts": of}])


def test_instructions_are_shared_out() -> None:
    profile = profiles_of(runs(counts()))["glibc"]
    assert profile.own_by_name() == {"malloc": 600, "carve": 400} and profile.root.callees["malloc"].instructions == 1000


@pytest.mark.parametrize("broken", [
    {"allocator": None}, {"allocator": {}}, {"allocator": {"instructions": 0}}, {"profile": None}, {"profile": {}},
    {"profile": {"samples": -5, "stacks": SAMPLED_STACKS}}, {"profile": {"samples": 10}}, {"profile": {"samples": 10, "stacks": []}},
    {"profile": {"samples": 10, "stacks": [{"frames": ["malloc"]}, {"samples": 3}, {"frames": ["free"], "samples": -3}]}}])
def test_what_is_missing_makes_no_profile(broken: dict[str, Any]) -> None:
    assert profiles_of(runs(counts(**broken))) == {}


def test_no_stack_is_too_deep() -> None:
    deep = {"frames": [f"f{number}" for number in range(5000)], "samples": 5}
    figure = profile_figure(profiles_of(runs(counts(profile={"samples": 10, "stacks": [*SAMPLED_STACKS, deep]}))), "glibc")
    assert figure is not None and "f100" in figure.body


def test_names_are_no_markup() -> None:
    hostile = {"frames": ["<script>alert(1)</script>", '"><img src=x>'], "samples": 5}
    figure = profile_figure(profiles_of(runs(counts(profile={"samples": 5, "stacks": [hostile]}))), "glibc")
    assert figure is not None and "<script>" not in figure.body and "<img" not in figure.body
