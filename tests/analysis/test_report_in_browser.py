# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: nothing is fetched or cut, and the script's switches, values and zoom do what they say.

A page beside the report holds it in a frame of some width, as browsers without a screen have no narrow windows, and acts and
looks from outside: the report's own policy lets no other script in. Debian's chromium is taken, where it is installed.

axe comes from npm, so no test runs it. It must find nothing, in light and, with blink-settings, in dark:

    apt-get install --no-install-recommends npm chromium chromium-driver
    npx @axe-core/cli file://$PWD/report.html --chromedriver-path /usr/bin/chromedriver --chrome-path /usr/bin/chromium \\
        --chrome-options=no-sandbox,headless=new,blink-settings=preferredColorScheme=0
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import story
from heaptape import read_results, write_report
from heaptape.command_line import main

pytestmark = pytest.mark.thorough

LOOK = """
const cut = d.documentElement.scrollWidth - w.innerWidth;
const fetched = w.performance.getEntriesByType('resource').filter((entry) => !entry.name.startsWith('data:')).length;
const hidden = [...d.querySelectorAll('body *:not(svg, svg *)')].filter((item) =>
  w.getComputedStyle(item).overflowX === 'hidden' && item.scrollWidth > item.clientWidth).length;
return { cut, fetched, hidden };
"""

ACT = """
const area = d.querySelector('[data-span] > svg:nth-child(2)'), box = area.getBoundingClientRect();
const point = (kind, part) => area.dispatchEvent(new w.PointerEvent(kind,
  { bubbles: true, pointerType: 'mouse', clientX: box.left + part * box.width, clientY: box.top + 50 }));
const shown = (css) => [...d.querySelectorAll('.' + css)].filter((item) => !item.closest('.key') && !item.closest('.tip') && item.getClientRects().length).length;
const ticks = () => [...d.querySelectorAll('[data-span] > svg:last-child text')].map((text) => text.textContent).join(' ');
const button = (words) => [...d.querySelectorAll('button')].find((item) => item.textContent === words);
const found = { before: ticks(), on: shown('a2') };
point('pointermove', 0.5);
found.values = d.querySelector('.tip').textContent;
point('pointerdown', 0.25);
point('pointermove', 0.5);
point('pointerup', 0.5);
found.zoomed = ticks();
found.said = d.querySelector('[role=status]').textContent;
button('whole time').click();
found.whole = ticks();
button('zoom in').click();
found.stepped = d.querySelector('[role=status]').textContent;
button('whole time').click();
const high = d.querySelector('[data-span] > svg').textContent;
button('jemalloc').click();
found.off = shown('a2');
found.pressed = [...d.querySelectorAll('button[aria-pressed=false]')].map((item) => item.textContent);
found.rescaled = d.querySelector('[data-span] > svg').textContent !== high;
button('jemalloc').click();
found.again = shown('a2');
const bar = d.querySelector('[data-tip]');
bar.dispatchEvent(new w.PointerEvent('pointermove', { bubbles: true }));
found.tip = d.querySelector('.tip').textContent === bar.dataset.tip;
found.reachable = [...d.querySelectorAll('button')].every((item) => item.tabIndex === 0);
const other = d.createElement('script');
other.textContent = 'document.title = "other"';
d.body.append(other);
found.title = d.title;
return found;
"""


MAP = """
const image = d.querySelector('[data-map]'), box = image.getBoundingClientRect(), tips = new Set();
for (let x = 4; x < box.width; x += 9) for (let y = 2; y < box.height; y += 9) {
  image.dispatchEvent(new w.PointerEvent('pointermove', { bubbles: true, clientX: box.left + x, clientY: box.top + y }));
  const tip = d.querySelector('.tip');
  if (!tip.hidden) tips.add(tip.textContent);
}
return { tips: [...tips], loaded: [...d.querySelectorAll('img')].every((item) => item.naturalWidth > 0), buttons: d.querySelectorAll('.key button').length };
"""


def _in_browser(report: Path, width: int, script: str) -> tuple[Any, list[str]]:
    """What the script returns, and what the browser's console says."""
    browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no chromium")
    frame = report.with_name("frame.html")
    frame.write_text(f"""<body><iframe src="{report.name}" style="border:0;width:{width}px;height:900px"></iframe><script>
        document.querySelector('iframe').addEventListener('load', (event) => {{
          const w = event.target.contentWindow, d = w.document;
          document.body.dataset.found = JSON.stringify((() => {{ {script} }})());
        }});</script></body>""", encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files", "--window-size=1500,1000",
         "--enable-logging=stderr", f"--user-data-dir={report.parent / 'profile'}", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert found, done.stdout[:300] + "\n".join(console) + done.stderr[-500:]
    return json.loads(html.unescape(found[1])), console


@pytest.fixture
def report(tmp_path: Path) -> Path:
    results, _ = story.write_story(tmp_path, rounds=6)
    return write_report(read_results(results), tmp_path / "report.html")


@pytest.fixture
def heap_page(heaptape_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of two allocators, one with a long name."""
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(heaptape_binary.with_name("replay")))
    trace = Path(__file__).parents[2] / "traces" / "sqlite3.bin"
    assert main(["explain", "-q", "--alloc", f"glibc,{'long_name' * 6}=glibc", "--html", str(tmp_path / "p.html"), str(trace)]) == 0
    return tmp_path / "p.html"


def test_map_under_the_pointer(heap_page: Path) -> None:
    found, console = _in_browser(heap_page, 1440, MAP)
    assert not console and found["loaded"] and not found["buttons"]
    tips = " | ".join(found["tips"])
    assert re.search(r"0x[0-9a-f]+–0x[0-9a-f]+\d of 1 page resident", tips) and re.search(r"\d+ blocks?, \d+ % livemostly \d[\d,]*(–[\d,]+)? bytes, thread 0", tips)
    assert "a gap of " in tips and "tables: never held a block" in tips


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("with_script", [True, False])
@pytest.mark.parametrize("kind", ["report", "heap_page"])
def test_nothing_is_cut_or_fetched(request: pytest.FixtureRequest, kind: str, width: int, with_script: bool) -> None:
    report: Path = request.getfixturevalue(kind)
    if not with_script:
        report.write_text(re.sub(r"<script>.*</script>", "", report.read_text(encoding="utf-8"), flags=re.S), encoding="utf-8")
    assert _in_browser(report, width, LOOK) == ({"cut": 0, "fetched": 0, "hidden": 0}, [])


def test_what_the_script_does(report: Path) -> None:
    found, console = _in_browser(report, 1440, ACT)
    assert found["before"] == found["whole"] == "0 1 2 3 4 s"
    # Half way, at 2 s, all that was asked for is live.
    assert found["values"].startswith("2.00 s") and "live bytes52.1 MB" in found["values"] and "jemalloc" in found["values"]
    assert found["said"] == "1.00 s to 2.00 s" and found["zoomed"] == "1 1.2 1.4 1.6 1.8 2 s"
    assert found["stepped"] == "1.00 s to 3.00 s"
    assert found["on"] == found["again"] > 8 and found["off"] == 0
    assert set(found["pressed"]) == {"jemalloc"} and len(found["pressed"]) == 3 and found["rescaled"]
    assert found["tip"] and found["reachable"]
    # The only complaint is about what is no part of the report.
    assert found["title"] != "other" and len(console) == 1 and "Content Security Policy" in console[0]
