#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/pictures/, each in light and in dark, and the example pages of the site, from what real runs left in pictures/.

    bench/figures/pictures.py                     # draws what has changed; takes chromium and pngquant
    bench/figures/pictures.py --measure BUILD     # runs everything anew first, in three minutes; takes lua5.4, perl and idle processors

The runs: traces/cpython.bin (16 seconds of a program in Python) replayed six times under four allocators (results.jsonl.xz) and looked at in a pause,
10 s from its begin, and at the end (glibc.snapshots.xz); a program in Perl recorded with --sites (log_report.bin); what `heaptape try` said of one in
Lua (try.txt); rows of growth.py (growth.csv). What a picture is drawn from is a text, an SVG or the part of a page that is photographed: drawn.json has
its checksum and that of the picture, and tests/guide/test_pictures.py makes the text anew.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "analysis"))

from heaptape import read_results, read_snapshots, read_trace  # noqa: E402
from heaptape.base.units import nanoseconds  # noqa: E402
from heaptape.explain.answering import answer_of  # noqa: E402
from heaptape.explain.heap_map import cells_each  # noqa: E402
from heaptape.report.figures import Figure, stylesheet  # noqa: E402
from heaptape.report.flame_graph import flame_figure  # noqa: E402
from heaptape.report.heap_maps import heap_page  # noqa: E402
from heaptape.report.html import Chapter, build_chapter, render  # noqa: E402
from heaptape.report.svg import Drawing, spread_labels, text_width  # noqa: E402
from heaptape.results.comparison import SEED, experiments  # noqa: E402
from heaptape.results.found_trace import find_trace  # noqa: E402
from heaptape.sites.figures import site_figures  # noqa: E402
from heaptape.sites.frames import Stacks  # noqa: E402
from heaptape.sites.table import by_place, call_tree  # noqa: E402

RUNS, PICTURES = TREE / "bench/figures/pictures", TREE / "docs/pictures"
TRACE, WORK = TREE / "traces/cpython.bin", Path("/tmp/heaptape-pictures")
DRAWN = RUNS / "drawn.json"
AT = "10s"
SCHEMES = ("light", "dark")
SVG = "http://www.w3.org/2000/svg"
WIDE_PX = 820
DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\n(.*?)\n\}\n", re.DOTALL)
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def unpacked(name: str, folder: str) -> Path:
    """A file of the runs, in this folder."""
    path = Path(folder) / name
    path.write_bytes(lzma.decompress((RUNS / f"{name}.xz").read_bytes()))
    return path


@cache
def chapter() -> Chapter:
    """What the report says of the replay."""
    with tempfile.TemporaryDirectory() as folder:
        (experiment,) = experiments(read_results(unpacked("results.jsonl", folder)))
        found = find_trace(experiment, [TRACE])
        try:
            return build_chapter(experiment, found, None, SEED)
        finally:
            if found.trace:
                found.trace.close()


@cache
def report_page() -> str:
    """The report on it."""
    return render([chapter()])


@cache
def explain_page() -> str:
    """What `heaptape explain --at 10s --budget 0 --html` writes."""
    with tempfile.TemporaryDirectory() as folder, read_trace(TRACE) as trace:
        answer = answer_of(read_snapshots(unpacked("glibc.snapshots", folder)), AT, trace, cells_each(1))
        return heap_page([replace(answer, trace=TRACE.name)])


EXAMPLES: dict[str, Callable[[], str]] = {"report.html": report_page, "explain.html": explain_page}


def in_scheme(style: str, scheme: str) -> str:
    """The style sheet where that is the only one."""
    return DARK.sub(lambda found: found[1] + "\n" if scheme == "dark" else "", style)


def part_of(page: str, scheme: str, begin: str, end: str) -> str:
    """A page of a part of that page, which says its height in place of its own script."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    part = page[page.index(begin):]
    return (f'<!doctype html><meta charset="utf-8"><style>{in_scheme(style[1] if style else "", scheme)}article > *:last-child {{ margin-bottom: 0 }} '
            f'article {{ padding-bottom: 1.4rem }}</style><body><article>{part[:part.index(end)]}</article>'
            "<script>document.body.dataset.height = Math.ceil(document.body.getBoundingClientRect().height)</script>")


def svg(scheme: str, height: float, parts: str, style: str = "") -> str:
    """A picture of its own, on the report's paper."""
    rules = RULE.findall(re.sub(r"/\*.*?\*/|@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", in_scheme(stylesheet(), scheme) + style, flags=re.DOTALL))
    kept = [f"{names.strip()} {{{said}}}" for names, said in rules if re.match(r"(:root|svg|text|\.c\d|\.live|\.recorded)", names.strip())]
    return (f'<svg xmlns="{SVG}" viewBox="0 0 {WIDE_PX} {height:g}" width="{WIDE_PX}" height="{height:g}"><style>{escape(chr(10).join(kept), quote=False)}</style>'
            f'<rect width="100%" height="100%" rx="6" style="fill:var(--paper)"/>{parts}</svg>\n')


def markup_of(figure: Figure) -> ET.Element:
    ET.register_namespace("", SVG)
    return ET.fromstring(figure.body.replace(" open>", ">"))


def placed(drawing: ET.Element, x: float, y: float, width: float) -> str:
    for name, value in (("x", x), ("y", y), ("width", width)):
        drawing.set(name, f"{value:g}")
    for name in ("role", "aria-label", "aria-hidden"):
        drawing.attrib.pop(name, None)
    return ET.tostring(drawing, encoding="unicode")


def curve(scheme: str) -> str:
    """RSS over time, of each allocator."""
    figure = chapter().memory_figure
    assert figure
    up, area, across = markup_of(figure)
    parts, x = [], 16.0
    for name, css in figure.key:
        mark = '<rect class="curve live" y="-9" width="16" height="9"/>' if css == "live" else '<path class="curve" d="M0 -4h16"/>'
        parts.append(f'<g class="{css}" transform="translate({x:g} 26)">{mark}<text x="22" style="fill:var(--ink)">{escape(name)}</text></g>')
        x += 22 + text_width([name], 12) + 22
    left, high = 64, float(area.get("height", "0"))
    parts += [placed(up, 0, 50, left - 8), placed(area, left, 50, WIDE_PX - left - 20), placed(across, left, 50 + high, WIDE_PX - left - 20)]
    return svg(scheme, high + 86, "".join(parts), "svg .whole .curve { stroke-dasharray: 5 4 }")


NARROWEST_PX, LABELLED_PX, LETTER_PX, ROWS = 1.5, 50, 7.2, 28


def flame(scheme: str) -> str:
    """Who holds the memory at the peak. Without tool tips, which a picture does not have, and what is too narrow to see."""
    with read_trace(RUNS / "log_report.bin") as trace:
        sites, stacks = site_figures(trace).sites, Stacks(trace.sites)
        figure = flame_figure(call_tree(sites, stacks), by_place(sites, stacks))
    graphs = {graph.findtext("summary") or "": graph.find(f".//{{{SVG}}}svg") for graph in markup_of(figure)}
    heading, drawing = next((heading, drawing) for heading, drawing in graphs.items() if "peak" in heading and drawing is not None)
    inner, deepest = WIDE_PX - 24, 0.0
    for cell in drawing.findall(f"{{{SVG}}}svg"):
        width = float(cell.get("width", "0").rstrip("%")) / 100 * inner
        if width < NARROWEST_PX or float(cell.get("y", "0")) >= ROWS * 18:
            drawing.remove(cell)
            continue
        deepest = max(deepest, float(cell.get("y", "0")))
        for box in cell.findall(f"{{{SVG}}}rect"):
            box[:] = []
        for text in cell.findall(f"{{{SVG}}}text"):
            room, words = int((width - 5) / LETTER_PX), text.text or ""
            text.text = words if len(words) <= room else words[:max(room - 1, 0)] + "…"
            if width < LABELLED_PX:
                cell.remove(text)
    high = deepest + 18
    drawing.set("height", f"{high:g}")
    return svg(scheme, high + 50, f'<text class="label" x="12" y="25">{escape(heading)}</text>{placed(drawing, 12, 40, inner)}')


GROWTH_PX, STEPS = (240, 270), ("record", "convert", "stats", "replay", "report", "explain", "diff")


def growth(scheme: str) -> str:
    """CPU time of each step by calls, and by live blocks, both logarithmic; behind its name the power of the last decade."""
    with (RUNS / "growth.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    panels = [_growth_panel([row for row in rows if row["axis"] == axis], axis, 60 + number * 410) for number, axis in enumerate(("calls", "blocks"))]
    return svg(scheme, GROWTH_PX[1] + 90, "".join(panels), "text { font-size: 12px } svg .curve { stroke-width: 1.6 } line.grid { stroke: var(--rule) }")


def _growth_panel(rows: list[dict[str, str]], axis: str, left: float) -> str:
    wide, high = GROWTH_PX
    numbers, times = [math.log10(float(row["number"])) for row in rows], [math.log10(max(float(row["cpu_s"]), 0.01)) for row in rows]
    first, last, low, top = math.floor(min(numbers)), math.ceil(max(numbers)), -2, math.ceil(max(times))
    drawing = Drawing(None, 0, "")

    def x_of(number: float) -> float:
        return left + wide * (number - first) / (last - first)

    def y_of(time: float) -> float:
        return 50 + high * (top - time) / (top - low)

    drawing.text(left, 28, f"CPU time by {'calls' if axis == 'calls' else 'live blocks'}", "label")
    for power in range(low, top + 1):
        drawing.line(left, y_of(power), left + wide, y_of(power), "grid")
        drawing.text(left - 8, y_of(power) + 4, nanoseconds(10 ** (9 + power)), "tick", "end")
    for power in range(first, last + 1):
        drawing.text(x_of(power), 50 + high + 20, f"10{str(power).translate(SUPERSCRIPTS)}", "tick", "middle")
    curves = {step: [(number, time) for row, number, time in zip(rows, numbers, times, strict=True) if row["step"] == step] for step in STEPS}
    places = spread_labels([y_of(points[-1][1]) for points in curves.values()], 15, 50, 50 + high)
    for place, (step, points) in zip(places, curves.items(), strict=True):
        css = f"c{STEPS.index(step) + 1}"
        corners = " ".join(f"{x_of(number):.1f},{y_of(time):.1f}" for number, time in points)
        power = (points[-1][1] - points[-2][1]) / (points[-1][0] - points[-2][0])
        drawing.parts.append(f'<g class="{css}"><polyline class="curve" style="fill:none" points="{corners}"/></g>')
        drawing.text(x_of(points[-1][0]) + 6, place + 4, f"{step} {power:.2f}", css)
    return "".join(drawing.parts)


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

TERMINAL = """text.said { font: 13px/1 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink); white-space: pre }
text.asked { font-weight: 700 } text.answer { fill: var(--good); font-weight: 700 }
"""


def terminal(scheme: str) -> str:
    """A terminal with what `try` says. Each line has the width of its letters, whichever font there is."""
    made = [f'<circle cx="{18 + 18 * number}" cy="18" r="5.5" style="fill:var(--rule)"/>' for number in range(3)]
    said = (RUNS / "try.txt").read_text().splitlines()
    columns = max(len(line) for line in said if "  " in line)
    lines, letter, y = [part for line in said for part in textwrap.wrap(line, columns) or [line]], (WIDE_PX - 28) / columns, 34.0
    for number, line in enumerate(lines):
        y += 18.5
        if line:
            css = "said asked" if number == 0 else "said answer" if number == 2 else "said"
            made.append(f'<text class="{css}" x="14" y="{y:g}" xml:space="preserve" style="font-size:{letter / 0.6:.2f}px" textLength="{letter * len(line):.1f}" '
                        f'lengthAdjust="spacingAndGlyphs">{escape(line)}</text>')
    return svg(scheme, y + 16, "".join(made), TERMINAL)


@dataclass(frozen=True)
class Picture:
    """name: of the files, with the scheme between name and suffix. source: the text that it is drawn from: itself, or a page to photograph."""

    name: str
    source: Callable[[str], str]
    page_px: int = 0

    def path(self, scheme: str) -> Path:
        return PICTURES / f"{self.name}-{scheme}.{'png' if self.page_px else 'svg'}"


ALL = [
    Picture("report", lambda scheme: part_of(report_page(), scheme, "<header>", "<nav"), 1040),
    Picture("explain", lambda scheme: part_of(explain_page(), scheme, "<header>", '<h3 class="later">'), 960),
    Picture("map", lambda scheme: part_of(explain_page(), scheme, '<section id="maps">', '<section id="holders">'), 840),
    Picture("curve", curve),
    Picture("flame", flame),
    Picture("terminal", terminal),
    Picture("growth", growth),
]


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def photograph(page: str, width: int, output: Path) -> None:
    """By a browser, as high as the page is."""
    browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if browser is None or not shutil.which("pngquant"):
        sys.exit("pictures.py: chromium or pngquant is missing: apt-get install --no-install-recommends chromium pngquant fonts-dejavu-core")
    with tempfile.TemporaryDirectory() as folder:
        (source := Path(folder) / "page.html").write_text(page, encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile"]
        asked = subprocess.run([*command, f"--window-size={width},400", "--dump-dom", source.as_uri()], capture_output=True, text=True, check=True, timeout=120)
        height = re.search(r'data-height="(\d+)"', asked.stdout)
        assert height, asked.stdout[:200]
        subprocess.run([*command, f"--window-size={width},{height[1]}", "--force-device-scale-factor=1.6", f"--screenshot={folder}/page.png", source.as_uri()],
                       capture_output=True, check=True, timeout=120)
        subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--nofs", "--output", output, "128", f"{folder}/page.png"], check=True, timeout=120)


def outdated() -> list[tuple[Picture, str]]:
    """Pictures and schemes that would look otherwise, or are not those that were drawn."""
    drawn = json.loads(DRAWN.read_text()) if DRAWN.exists() else {}
    found = []
    for picture in ALL:
        for scheme in SCHEMES:
            path = picture.path(scheme)
            now = [checksum(picture.source(scheme).encode()), checksum(path.read_bytes()) if path.exists() else ""]
            if drawn.get(path.name) != now:
                found.append((picture, scheme))
    return found


def draw(wanted: list[tuple[Picture, str]]) -> None:
    PICTURES.mkdir(exist_ok=True)
    drawn = json.loads(DRAWN.read_text()) if DRAWN.exists() else {}
    for picture, scheme in wanted:
        path, source = picture.path(scheme), picture.source(scheme)
        if picture.page_px:
            photograph(source, picture.page_px, path)
        else:
            path.write_text(source, encoding="utf-8")
        drawn[path.name] = [checksum(source.encode()), checksum(path.read_bytes())]
        print(f"{path.relative_to(TREE)}: {path.stat().st_size:,} bytes")
    DRAWN.write_text(json.dumps(dict(sorted(drawn.items())), indent=1) + "\n")


def measure(build: Path) -> None:
    """In a folder that tells nothing of whose machine this is, because paths get into traces and results."""
    WORK.mkdir()
    try:
        for file in [*build.glob("replay*"), *build.glob("lib*.so"), build / "heaptape"]:
            shutil.copy(file, WORK)
        for file in (TRACE, TREE / "traces/recipes/log_report.pl", TREE / "bench/programs/words.lua"):
            shutil.copy(file, WORK)
        environment = os.environ | {"PATH": f"{WORK}:{os.environ['PATH']}", "PERL_HASH_SEED": "0", "COLUMNS": "96", "PYTHONPATH": str(TREE / "analysis"),
                                    "HEAPTAPE_PYTHON": sys.executable}

        def run(command: str) -> str:
            print(f"$ {command}", flush=True)
            return subprocess.run(command, shell=True, cwd=WORK, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=900).stdout

        run(f"heaptape replay -q --alloc glibc,jemalloc,tcmalloc,mimalloc --rounds 6 -o results.jsonl {TRACE.name}")
        run(f"heaptape replay -q --alloc glibc --snapshots . --at {AT},end {TRACE.name}")
        run(f"perl {TREE}/traces/recipes/make_access_log.pl 800 >access.log")
        run("heaptape record -q --any-folder --sites -o logs -- perl log_report.pl access.log")
        run("heaptape convert -q --level max logs/*.mraw -o log_report.bin")
        asked = "heaptape try -- lua5.4 words.lua 4"
        (RUNS / "try.txt").write_text(f"$ {asked}\n{run(asked)}")
        shutil.copy(WORK / "log_report.bin", RUNS)
        for name in ("results.jsonl", "glibc.snapshots"):
            (RUNS / f"{name}.xz").write_bytes(lzma.compress((WORK / name).read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    finally:
        shutil.rmtree(WORK)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the pictures of docs/pictures/ whose look has changed.")
    parser.add_argument("--measure", type=Path, metavar="BUILD", help="run everything anew first, with the heaptape of this folder")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure.resolve())
        print("The words beside the pictures in docs/ and README.md have figures of these runs.")
    draw(outdated())


if __name__ == "__main__":
    main()
