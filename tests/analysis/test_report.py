# SPDX-License-Identifier: Apache-2.0
"""The report: self-contained, complete, and still there when the trace is not."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import naive_writer
import numpy as np
import pytest
import results_factory
import story
from heaptape import read_results, read_trace, write_report
from heaptape.base.units import byte_count, nanoseconds, percent, seconds, three_digits
from heaptape.report.html import build_chapter, render
from heaptape.report.svg import nice_ticks, ratio_ticks, spread_labels
from heaptape.results.comparison import compare, experiments
from heaptape.results.counted import function_table
from heaptape.results.curves import thin
from heaptape.results.found_trace import find_trace
from heaptape.results.malloc_share import malloc_share
from hypothesis import given, settings
from hypothesis import strategies as st


class _Page(HTMLParser):
    """What a browser would load, whether every element that was opened is closed, and each element's attributes."""

    VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "poster", "srcset"):
                self.loads.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def _words(markup: str) -> str:
    """What one reads without a script: no line can end within a name that has been taken apart by that."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", markup.replace("<wbr>", ""), flags=re.S)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def _report(folder: Path, results: Path, **more: object) -> str:
    path = write_report(read_results(results), folder / "report.html", **more)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with all there may be."""
    folder = tmp_path_factory.mktemp("whole")
    return _report(folder, story.write_story(folder, rounds=6, points=20)[0])


@pytest.mark.thorough
@pytest.mark.parametrize("chosen", ["malloc", "pymalloc"])
def test_the_lines_to_use_an_allocator_name_what_else_the_recording_had(tmp_path: Path, chosen: str) -> None:
    results, trace = story.write_story(tmp_path, rounds=6)
    [experiment] = experiments(read_results(results))
    found = find_trace(experiment, [trace])
    assert found.trace
    with found.trace:
        found.trace.context["env.PYTHONMALLOC"] = chosen
        text = _words(render([build_chapter(experiment, found, None, 1)]))
    assert "To use mimalloc:" in text and ("Set PYTHONMALLOC=malloc too, as in the recording: " in text) == (chosen == "malloc")


def test_everything_is_there_and_nothing_is_fetched(whole: str) -> None:
    text, page = whole, _Page(whole)
    assert page.open == []
    assert all(load.startswith(("#", "data:")) for load in page.loads)
    assert not re.search(r"url\(|@import|<iframe", text)
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    for words in ("mimalloc is fastest", "What do I gain?", "How certain is that?", "What next?", "12 %", "recorded heap", "live bytes", "realloc",
                  "MALLOC_ARENA_MAX", "Where do the figures come from?", "python3 job.py", "20817", "rounding", "other", "peak RSS/live"):
        assert words in _words(text)
    # The first screen is what comes before the links to the others, the curve and the answer to all four questions with it.
    first = text[: text.index("<nav")]
    assert "LD_PRELOAD=/usr/lib/libmimalloc.so python3 job.py" in _words(first).replace("/ ", "/") and "data-span" in first
    for title in ("Parts of peak RSS", "What it keeps", "Time against memory", "Requested sizes", "Lifetimes"):
        assert f"<h3>{title}</h3>" in text
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def test_every_figure_has_its_words(whole: str) -> None:
    """A drawing says what it shows, or is decoration beside words; and each figure has a table."""
    for tag, attributes in _Page(whole).elements:
        if tag == "svg" and attributes.get("class") != "plot":
            assert len(attributes.get("aria-label", "")) > 20 or attributes.get("aria-hidden") == "true"
    figures = re.findall(r"<figure>(.*?)</figure>", whole, flags=re.S)
    assert len(figures) >= 12 and all("<table>" in figure for figure in figures)
    headings = [int(level) for level in re.findall(r"<h([1-6])", whole)]
    assert headings[0] == 1 and all(after <= before + 1 for before, after in itertools.pairwise(headings))


def test_the_browser_runs_what_is_in_the_file_and_nothing_else(whole: str) -> None:
    policy = next(attributes["content"] for tag, attributes in _Page(whole).elements if attributes.get("http-equiv") == "Content-Security-Policy")
    for tag in ("style", "script"):
        inside = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", whole, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert len(inside) == 1 and f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not [name for _, attributes in _Page(whole).elements for name in attributes if name == "style" or name.startswith("on")]


@pytest.mark.thorough
@pytest.mark.parametrize("differs", ["time", "rss_peak"])
def test_what_differs_comes_first(tmp_path: Path, differs: str) -> None:
    rows = []
    rng = np.random.default_rng(5)
    for number in range(8):
        for name, ratio in (("glibc", 1.0), ("other", 0.7)):
            rows += [results_factory.run(name, kind, number, rng, points=4, noise=0.001, time_ratio=ratio if differs == "time" else 1.0,
                                         peak_ratio=ratio if differs == "rss_peak" else 1.0) for kind in ("time", "memory")]
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows))
    headline = text[text.index("<h1"): text.index("</h1>")]
    assert headline.index("peak RSS") > headline.index("fast") if differs == "time" else headline.index("peak RSS") < headline.index("fast")
    order = sorted(("time", "rss_peak"), key=lambda name: name != differs)
    for places in ([text.index(f'href="#{name}-1"') for name in order], [text.index(f'id="{name}-1"') for name in order]):
        assert places == sorted(places)
    titles = [{"time": "Time in malloc", "rss_peak": "Peak RSS"}[name] for name in order]
    assert re.findall(r'<div class="gain"><h3>([^<]*)', text) == titles and "−30 %" in text


def test_names_are_shown_in_full(tmp_path: Path) -> None:
    long = "jemalloc:narenas=1,dirty_decay_ms=0,muzzy_decay_ms=0,background_thread=false"
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(6, ("glibc", long, "mimalloc"), points=10)))
    figures = re.findall(r"<figure>(.*?)</figure>", text, flags=re.S)
    # Latencies share one key.
    assert all(long in _words(figure) for figure in figures) and "…" not in text and "text-overflow" not in text
    assert "1,<wbr>dirty" in text and "000,<wbr>" not in text and long in _words(text[text.index("<h1"): text.index("<nav")])


@pytest.mark.thorough
def test_warnings_are_counted_where_one_begins_to_read(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=2, names=("glibc", "other"), points=4, noise=0.05)
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows))
    listed = text[text.index('id="warnings-1"'):].count("<li>")
    assert listed > 1 and text[: text.index("<nav")].count(f'<a href="#warnings-1">{listed} warnings</a>') == 2


@pytest.mark.thorough
def test_what_next_where_nobody_is_better(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=6, names=("glibc", "x"), points=4, noise=0.0)
    text = _words(_report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows)))
    assert "this gives no reason to change" in text and "LD_PRELOAD" not in text


@pytest.mark.thorough
@pytest.mark.parametrize("points", [2_000, 20_000])
def test_five_allocators_and_twenty_rounds_make_a_small_file(tmp_path: Path, points: int) -> None:
    results, _ = story.write_story(tmp_path, rounds=20, points=points)
    assert len(_report(tmp_path, results).encode()) < 1_000_000


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["gone", "changed", "corrupt", "unnamed"])
def test_without_its_trace_the_report_says_so(tmp_path: Path, how: str) -> None:
    results, trace = story.write_story(tmp_path)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    if how == "gone":
        trace.unlink()
    elif how == "changed":
        story.write_trace(trace, blocks=10)
    else:
        for row in rows:
            row["trace"] = {"path": "job.bin" if how == "corrupt" else "", "sha256": "", "events": 1}
        results_factory.write(results, rows)
        trace.write_bytes(trace.read_bytes()[:200] + b"?" + trace.read_bytes()[201:])
    text = _report(tmp_path, results)
    words = {"gone": "does not exist", "changed": "has changed since it was replayed", "corrupt": "expected bytes of checksum ",
             "unnamed": "do not say where"}[how]
    assert words in text and "Name it with --trace" in text and "recorded heap" not in text
    assert "mimalloc is fastest" in text and "live bytes" in text
    assert _Page(text).open == []


@pytest.mark.thorough
def test_a_trace_cut_short_is_used_and_named(tmp_path: Path) -> None:
    results, trace = story.write_story(tmp_path)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in rows:
        row["trace"]["sha256"] = ""
    results_factory.write(results, rows)
    trace.write_bytes(trace.read_bytes()[:-40])
    text = _report(tmp_path, results)
    assert "was cut short" in text and "recorded heap" in text


def test_without_the_program_heaptape_the_report_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", "/nonexistent/replay")
    monkeypatch.setenv("PATH", "")
    text = _report(tmp_path, story.write_story(tmp_path)[0])
    assert "was not found or is of another version, so they are missing here." in text and "Requested sizes" not in text
    assert "live bytes" in text and "recorded heap" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    name = "<b>x</b>&amp;\" onclick=\"y"
    rows = results_factory.schedule(rounds=6, names=("glibc", name))
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows))
    assert "<b>x" not in text and "&lt;b&gt;x" in text
    assert not [attributes for _, attributes in _Page(text).elements if "onclick" in attributes]


@pytest.mark.thorough
def test_two_experiments_make_two_chapters(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=6) + results_factory.schedule(rounds=6, touch="none")
    page = _Page(_report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows)))
    assert page.tags.count("main") == 1 and page.tags.count("article") == 2 and page.open == []


@pytest.mark.thorough
@pytest.mark.parametrize("kept", ["time", "memory"])
def test_one_pass_alone(tmp_path: Path, kept: str) -> None:
    rows = [row for row in results_factory.schedule(rounds=6) if row["pass"] == kept]
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows))
    assert ("Memory was not measured." in text) == (kept == "time")
    assert ("Time was not measured." in text) == (kept == "memory")
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S).lower().replace("nanosec", "")


def test_least_lines_and_single_allocator(tmp_path: Path) -> None:
    row = {"trace": {}, "allocator": {"name": "a"}, "pass": "time", "round": 0, "alloc_time_ns": 5}
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", [row]))
    assert "Only a was measured" in text and _Page(text).open == []


@pytest.mark.thorough
def test_many_allocators_keep_their_colours_apart(tmp_path: Path) -> None:
    names = ("glibc", *(f"allocator-{n}:with=a,long=name" for n in range(11)))
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(6, names)))
    assert "c7" in text and "c1 dashed" in text


def test_warnings(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=4)
    for row in rows:
        if row["allocator"]["name"] == "mimalloc" and row["round"] == 1:
            row["failures"] = {"malloc": 2}
        if row["allocator"]["name"] == "jemalloc" and row["pass"] == "memory":
            row |= {"lazyfree_bytes": 20_000_000, "major_faults": 300}
        if row["allocator"]["name"] == "tcmalloc" and row["pass"] == "time":
            row["harness_time_ns"] = 2 * row["alloc_time_ns"]
        row["machine"] = row["machine"] | {"cores": 2 + row["round"] % 2}
    text = _report(tmp_path, results_factory.write(tmp_path / "r.jsonl", rows))
    for words in ("runs of mimalloc failed and are left out", "Fewer than 6 rounds", "MADV_FREE", "major page faults",
                  "more than one machine", "Replaying itself took longer"):
        assert words in text


@pytest.mark.thorough
def test_what_was_inherited_is_reported(tmp_path: Path) -> None:
    results, trace = story.write_story(tmp_path)
    assert "inherited at a fork" not in _report(tmp_path, results)
    sha256 = story.write_trace(trace, inherited_objects=5_461, inherited_bytes=566_000)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in rows:
        row["trace"]["sha256"] = sha256
    text = _report(tmp_path, results_factory.write(results, rows))
    assert "inherited at a fork" in text and "5,461 blocks, 566 kB" in text


@pytest.mark.thorough
def test_malloc_share(tmp_path: Path) -> None:
    results, trace_path = story.write_story(tmp_path)
    runs, trace = read_results(results), read_trace(trace_path)
    value = malloc_share(runs, trace.context, trace.totals, compare(runs))
    assert value.reference == "glibc" and not value.stands_in
    assert value.share == pytest.approx(0.67e9 / story.CPU_NS, rel=0.03)
    saving = value.rows.set_index("allocator")["saving"]
    assert saving["glibc"] == 0 and saving["mimalloc"] == pytest.approx(0.55 * value.share, rel=0.05)
    assert "mimalloc would save about" in value.sentence()
    other = malloc_share(runs, trace.context | {"allocator_name": "snmalloc"}, trace.totals, compare(runs, "jemalloc"))
    assert other.stands_in and other.reference == "jemalloc"
    assert malloc_share(runs, {}, {"recorded_cpu_ns": 0}, compare(runs)) is None
    assert malloc_share(runs, {}, None, compare(runs)) is None


@pytest.mark.thorough
def test_functions_in_the_shape_of_ltrace(tmp_path: Path) -> None:
    runs = read_results(results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=5)))
    table = function_table(runs, "glibc")
    assert table["function"].tolist() == ["malloc", "free", "realloc", "calloc"]
    assert table["share"].sum() == pytest.approx(1)
    assert (table["ns_per_call"] * table["calls"]).tolist() == pytest.approx(table["time_ns"].tolist())
    assert function_table(runs, "absent").empty


def test_a_failed_write_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, _ = story.write_story(tmp_path)
    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    from heaptape import HeaptapeError

    with pytest.raises(HeaptapeError, match="No space left"):
        write_report(read_results(results), target)
    assert target.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["job.bin", "report.html", "results.jsonl"]


def test_a_trace_named_must_be_readable(tmp_path: Path) -> None:
    from heaptape import TraceError

    results, _ = story.write_story(tmp_path)
    (tmp_path / "bad.bin").write_bytes(naive_writer.encode_header()[:50])
    with pytest.raises(TraceError):
        write_report(read_results(results), tmp_path / "report.html", [tmp_path / "bad.bin"])
    assert not (tmp_path / "report.html").exists()


@pytest.mark.thorough
@settings(deadline=None)
@given(values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=3000), buckets=st.integers(1, 50))
def test_thinning_keeps_both_extremes_and_ends(values: list[float], buckets: int) -> None:
    value = np.array(values)
    rows = thin(np.arange(value.size, dtype=float), value, buckets)
    assert value[rows].max() == value.max() and value[rows].min() == value.min()
    assert rows[0] == 0 and rows[-1] == value.size - 1 and rows.size <= max(4 * buckets, 1)
    assert (np.diff(rows) > 0).all()


@settings(deadline=None)
@given(wanted=st.lists(st.floats(0, 400), min_size=1, max_size=12))
def test_labels_never_overlap(wanted: list[float]) -> None:
    placed = spread_labels(wanted, 16, 0, 400)
    ordered = sorted(placed)
    assert all(b - a >= 15.999 for a, b in itertools.pairwise(ordered))
    assert ordered[0] >= -0.001 and ordered[-1] <= 400.001


@settings(deadline=None)
@given(high=st.floats(1e-6, 1e12), count=st.integers(2, 10))
def test_ticks_are_few_and_within(high: float, count: int) -> None:
    ticks = nice_ticks(high, count)
    assert ticks[0] == 0 and ticks[-1] <= high * (1 + 1e-9) and 1 < len(ticks) <= count + 1
    assert 1.0 in ratio_ticks(0.2, 3, 300)


@pytest.mark.thorough
def test_one_file_has_one_answer(tmp_path: Path) -> None:
    """Under the memory curve stand the medians of the tables, also of an even number of rounds, whose median no run has."""
    results, _ = story.write_story(tmp_path, rounds=4)
    frame = read_results(results)
    (experiment,) = experiments(frame)
    chapter = build_chapter(experiment, find_trace(experiment, []), None, 1)
    medians = chapter.summary.comparison.set_index(["allocator", "measure"])["value"]
    assert chapter.memory_figure is not None
    rows = {row[0]: dict(zip(chapter.memory_figure.table.columns, row, strict=True)) for row in chapter.memory_figure.table.rows}
    (gain,) = (item for item in chapter.gains if item.measure == "rss_peak")
    for cells in (dict(zip(gain.table.columns, row, strict=True)) for row in gain.table.rows):
        under_curve, name = rows[cells["allocator"]], cells["allocator"]
        assert under_curve["peak"] == cells["peak RSS"] == byte_count(medians[name, "rss_peak"])
        assert under_curve["mean over time"] == cells["mean RSS"] and under_curve["at the end"] == cells["RSS at the end"]
    for figure in chapter.parts_figures:
        assert not {"peak RSS", "RSS at the end"} & set(figure.table.columns), "of one run: another figure, which needs another name"


def test_units() -> None:
    assert [byte_count(v) for v in (0, 999, 63_200_000, 999_999, None, float("nan"))] == [
        "0 B", "999 B", "63.2 MB", "1.00 MB", "n/a", "n/a"]
    assert [nanoseconds(v) for v in (12.345, 671e6, 1.5e9, -2e6)] == ["12.3 ns", "671 ms", "1.50 s", "-2.00 ms"]
    assert three_digits(99.97) == "100" and percent(0.0999) == "10 %" and seconds(1_500_000) == "0.001500"
