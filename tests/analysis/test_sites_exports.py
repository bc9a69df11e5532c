# SPDX-License-Identifier: Apache-2.0
"""`heaptape sites --to`: each format read back by a program or a scheme of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import jsonschema
import naive_writer
import pytest
from naive_writer import Event, TraceSpec, sites_of
from verbs_here import run_here

MALLOC, FREE = 1, 5
STACKS = [["xmalloc@util.c:7", "read;line@read.c:20", "main@main.c:3"], ["inlined@fill.h:2|fill@fill.cc:5", "main@main.c:5"], ["libplugin.so+0x1234", "main@main.c:6"],
          ["xmalloc@util.c:8", "read;line@read.c:20", "main@main.c:3"]]
BYTES = {"xmalloc": 150, "inlined": 4000, "libplugin.so+0x1234": 7}
DH_VIEW = [Path(folder) / "valgrind" / "dh_view.js" for folder in ("/usr/libexec", "/usr/lib/x86_64-linux-gnu", "/usr/lib")]


@pytest.fixture(name="trace")
def _trace(tmp_path: Path) -> Path:
    sizes = [(1, 50), (1, 50), (2, 4000), (3, 7), (4, 50)]
    events = [Event(MALLOC, 0, 0, 1000 * slot, slot, size, site=site) for slot, (site, size) in enumerate(sizes, start=1)]
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(TraceSpec([*events, Event(FREE, 0, 0, 9000, 3)], sites=sites_of(STACKS)))[0])
    return path


def _exported(trace: Path, form: str, *more: str) -> Path:
    path = trace.with_name(f"out.{form}")
    done = run_here("sites", trace, "--to", form, "-o", path, *more, cwd=trace.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path


def test_collapsed(trace: Path) -> None:
    lines = [line.rpartition(" ") for line in _exported(trace, "collapsed").read_text().splitlines()]
    assert {(tuple(stack.split(";")), int(value)) for stack, _, value in lines} == {
        (("main", "read:line", "xmalloc"), 150), (("main", "fill", "inlined"), 4000), (("main", "libplugin.so+0x1234"), 7)}
    end = _exported(trace, "collapsed", "--by", "end").read_text()
    assert "inlined" not in end and "main;libplugin.so+0x1234 7\n" in end


@pytest.mark.thorough  # go builds the tool when it is used first
def test_pprof_is_read_by_pprof(trace: Path) -> None:
    path = _exported(trace, "pprof", "--by", "peak")
    go = shutil.which("go")
    if not go:
        pytest.skip("go is not installed")

    def read(*words: str) -> str:
        return subprocess.run([go, "tool", "pprof", *words, str(path)], cwd=trace.parent, capture_output=True, text=True, check=True, timeout=600).stdout

    top = read("-top", "-unit=b", "-nodefraction=0", "-sample_index=alloc_space")
    flat = {words[5]: words[0] for words in (line.split() for line in top.splitlines()) if len(words) == 6 and words[0].endswith("B")}
    assert {name: f"{size}B" for name, size in BYTES.items()}.items() <= flat.items() and " 4157B" in top
    assert "Type: peak_space" in read("-top") and "inlined" not in read("-top", "-sample_index=inuse_space", "-nodefraction=0")
    assert "fill.h:2" in read("-traces", "-lines", "-sample_index=alloc_calls")


# What https://www.speedscope.app/file-format-schema.json asks of a sampled profile.
SPEEDSCOPE = {
    "type": "object", "required": ["$schema", "profiles", "shared"], "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"}, "activeProfileIndex": {"type": "number"},
        "exporter": {"type": "string"}, "name": {"type": "string"},
        "shared": {"type": "object", "required": ["frames"], "properties": {"frames": {"type": "array", "items": {
            "type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "number"}, "col": {"type": "number"}}}}}},
        "profiles": {"type": "array", "items": {
            "type": "object", "required": ["endValue", "name", "samples", "startValue", "type", "unit", "weights"], "properties": {
                "type": {"const": "sampled"}, "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                "name": {"type": "string"}, "startValue": {"type": "number"}, "endValue": {"type": "number"},
                "samples": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                "weights": {"type": "array", "items": {"type": "number"}}}}}}}


def test_speedscope_follows_its_scheme(trace: Path) -> None:
    found = json.loads(_exported(trace, "speedscope", "--by", "end").read_text())
    jsonschema.validate(found, SPEEDSCOPE)
    names = [frame["name"] for frame in found["shared"]["frames"]]
    profile = found["profiles"][1]
    innermost: Counter[str] = Counter()
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        assert names[stack[0]] == "main"
        innermost[names[stack[-1]]] += weight
    assert innermost == BYTES and profile["endValue"] == sum(BYTES.values())
    assert found["profiles"][found["activeProfileIndex"]]["name"] == "bytes live at end"


# The tree that dh_view builds, without its page.
READ_DHAT = """
const fs = require("fs");
const [viewer, file] = process.argv.slice(1).map(path => fs.readFileSync(path, "utf8"));
console.log(new Function("document", "file", viewer + `
  gSelect = {childNodes: gSelectData.map(() => ({})), selectedIndex: 0};
  gData = JSON.parse(file);
  buildTree();
  const shown = node => [node._totalBytes, node._totalBlocks, node._atTEndBytes, node._frames.map(n => gData.ftbl[n]), (node._kids || []).map(shown)];
  return JSON.stringify(shown(gRoot));`)({addEventListener() {}}, file));
"""


def test_dhat_is_read_by_its_viewer(trace: Path) -> None:
    path = _exported(trace, "dhat")
    found = json.loads(path.read_text())
    assert [(point["tb"], point["eb"]) for point in found["pps"]] == [(100, 100), (4000, 0), (7, 7), (50, 50)] and found["te"] == 9
    viewer, node = next((path for path in DH_VIEW if path.exists()), None), shutil.which("node")
    if not viewer or not node:
        pytest.skip("valgrind's dh_view.js, or node, is not installed")
    done = subprocess.run([node, "-e", READ_DHAT, viewer, path], capture_output=True, text=True, check=True, timeout=60)
    total, blocks, end, _, kids = json.loads(done.stdout)
    assert (total, blocks, end) == (4157, 5, 157)
    assert sorted((kid[0], kid[3][0].partition(" ")[2]) for kid in kids) == [
        (7, "libplugin.so+0x1234 (libplugin.so)"), (50, "xmalloc (util.c:8)"), (100, "xmalloc (util.c:7)"), (4000, "inlined (fill.h:2)")]
