# SPDX-License-Identifier: Apache-2.0
"""Call sites of written traces: what the reader makes of their tables, the figures, names, tables and trees of `sites`."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import naive_writer
import pytest
from heaptape import TraceError, read_trace
from heaptape.sites.figures import site_figures
from heaptape.sites.frames import Frame, Stacks, place_text
from heaptape.trace.sections import Kind
from naive_writer import Event, Sites, TraceSpec, sites_of
from verbs_here import run_here
from wrapper_names import LIBRARY_FILES, OPT_MODULES, OTHERS, PROGRAM_MODULES, RUNTIME_MODULES, WRAPPERS, nameless_stacks

MALLOC, CALLOC, REALLOC, FREE, QUERY, INHERIT = 1, 2, 3, 5, 26, 31
FAILED, RELEASED = 2, 3
STACKS = [
    ["xmalloc@util.c:7", "read_line@read.c:20", "main@main.c:3"],
    ["xmalloc@util.c:7", "keep@keep.c:44", "main@main.c:4"],
    ["std::vector<int>::push_back(int const&)@/usr/include/c++/12/bits/stl_vector.h:9|fill(int)@fill.cc:5", "main@main.c:5"],
    ["libplugin.so+0x1234", "main@main.c:6"],
]


def _write(path: Path, events: list[Event], sites: Sites | None, **spec: object) -> Path:
    threads = [(7 + i, 0, 0, 0, 0, 0, "job") for i in range(3)]
    path.write_bytes(naive_writer.build(TraceSpec(events, sites=sites, threads=threads, **spec))[0])
    return path


def _events(seed: int, count: int = 400) -> list[Event]:
    """Sound events of three threads, of sites 0 to 4."""
    rnd, live, time = random.Random(seed), {n: 8 for n in (1, 2)}, 0
    events = [Event(INHERIT, 0, 0, 0, slot, 8, site=3) for slot in live]
    for slot in range(3, count):
        time += rnd.randrange(3) * 20
        thread, size, site = rnd.randrange(3), rnd.randrange(1, 500), rnd.randrange(5)
        events.append(Event(CALLOC, 0, thread, time, slot, size, 3, site))
        live[slot] = size
        if rnd.random() < 0.2:
            events += [Event(QUERY, 0, thread, time, slot), Event(MALLOC, FAILED, thread, time, 0, size, site=site)]
        while live and rnd.random() < 0.45:
            old = rnd.choice(list(live))
            kind = rnd.choice([(FREE, 0), (REALLOC, 0), (REALLOC, RELEASED)])
            events.append(Event(*kind, rnd.randrange(3), time, old, 0 if kind[0] == FREE or kind[1] else size, site=0 if kind[0] == FREE else site))
            if kind != (REALLOC, 0):
                del live[old]
    return events


def _naive_figures(events: list[Event], sites: int) -> list[dict[str, int]]:
    """Event by event."""
    names = ("calls", "blocks", "bytes", "life_ns", "life_events", "peak_blocks", "peak_bytes", "end_blocks", "end_bytes")
    sums = [dict.fromkeys(names, 0) for _ in range(sites + 1)]
    held: dict[int, tuple[int, int, int, int]] = {}
    peak, peak_held = 0, held

    def end(slot: int, number: int, time: int) -> None:
        site, _, born, born_ns = held.pop(slot)
        sums[site]["life_events"] += number - born
        sums[site]["life_ns"] += time - born_ns

    for number, event in enumerate(events):
        asks = event.function in (MALLOC, CALLOC, REALLOC)
        sums[event.site]["calls"] += asks
        if event.slot in held and event.function != QUERY:
            end(event.slot, number, event.time)
        if event.function in (MALLOC, CALLOC, REALLOC, INHERIT) and event.variant == 0:
            size = event.size * (3 if event.function == CALLOC else 1)
            held[event.slot] = (event.site, size, number, event.time)
            sums[event.site]["blocks"] += 1
            sums[event.site]["bytes"] += size * asks
        if sum(size for _, size, *_ in held.values()) > peak:
            peak, peak_held = sum(size for _, size, *_ in held.values()), dict(held)
    for kind, blocks in (("peak", peak_held), ("end", held)):
        for site, size, *_ in blocks.values():
            sums[site][f"{kind}_blocks"] += 1
            sums[site][f"{kind}_bytes"] += size
    for slot in list(held):
        end(slot, len(events) - 1, events[-1].time)
    return sums


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_figures_are_those_of_a_walk_event_by_event(tmp_path: Path, seed: int) -> None:
    events = _events(seed)
    path = _write(tmp_path / "t.bin", events, sites_of(STACKS), block=100, compress=seed == 2)
    with read_trace(path) as trace:
        sites = [site for chunk in trace.event_arrays(["site"]) for site in chunk["site"].tolist()]
        figures = site_figures(trace)
    assert sites == [event.site for event in events]
    expected = _naive_figures(events, len(STACKS))
    found = figures.sites[list(expected[0])].to_dict("records")
    assert found == expected
    asking = [event for event in events if event.function in (MALLOC, CALLOC, REALLOC)]
    assert {(row.site, row.thread): row.calls for row in figures.threads.itertuples()} == {
        pair: sum((event.site, event.thread) == pair for event in asking) for pair in {(event.site, event.thread) for event in asking}}


def test_a_trace_without_call_sites(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.bin", [replace(event, site=0) for event in _events(3, 20)], None)
    with read_trace(path) as trace:
        assert trace.sites.sites.empty and not any(chunk["site"].any() for chunk in trace.event_arrays(["site"]))
        assert "site" not in next(trace.event_arrays())
    done = run_here("sites", path, cwd=tmp_path)
    assert done.returncode == 2 and "t.bin: no call sites; record with --sites" in done.stderr


DAMAGE = {
    "call sites up to 3": {"sites": sites_of(STACKS[:3]).sites},
    "locations in known modules": {"locations": [(9, 1)] * 8},
    "callers of earlier rows": {"callers": [(1, 0)] * 9},
    "known locations, found 99": {"callers": [(0, 99)] * 9},
    "known callers": {"sites": [(99, 0)] * 4},
    "known locations, found 98": {"names": [(98, 0, 0, 0)]},
    "names of known strings": {"names": [(0, 77, 0, 0)]},
    "a list of modules": {"modules": "none"},
    "modules with a path": {"modules": [{"path": 3}] * 4},
}


@pytest.mark.parametrize("expected", DAMAGE)
def test_numbers_that_name_nothing_are_refused(tmp_path: Path, expected: str) -> None:
    path = _write(tmp_path / "t.bin", _events(3, 40), replace(sites_of(STACKS), **DAMAGE[expected]))
    with read_trace(path) as trace, pytest.raises(TraceError, match=expected):
        list(trace.event_arrays(["site"]))


def test_a_trace_that_is_cut_short_knows_no_call_sites(tmp_path: Path) -> None:
    data, ends = naive_writer.build(TraceSpec(_events(3, 40), sites=sites_of(STACKS)))
    path = tmp_path / "t.bin"
    path.write_bytes(data[: ends[2]])
    with read_trace(path) as trace:
        assert trace.truncated and not any(chunk["site"].any() for chunk in trace.event_arrays(["site"]))


def _labels(frames: list[Frame] | tuple[Frame, ...]) -> list[str]:
    return [frame.text for frame in frames]


def test_frames_and_the_first_caller_outside_wrappers(tmp_path: Path) -> None:
    stacks = [*STACKS, ["libmalloc_wrap.so+0x9", "my_pool_alloc@pool.c:1", "use@use.c:8"], ["operator new(unsigned long)@../new_op.cc:50", "make@m.cc:2"],
              ["operator new(unsigned long)@own.cc:1", "make@m.cc:2"], []]
    with read_trace(_write(tmp_path / "t.bin", _events(3, 10), sites_of(stacks, flags={2: 1, 4: 2}))) as trace:
        found = Stacks(trace.sites)
    assert _labels(found.of(2)) == ["xmalloc (util.c:7)", "keep (keep.c:44)", "main (main.c:4)", "[deeper than recorded]"]
    assert _labels(found.of(4)) == ["libplugin.so+0x1234", "main (main.c:6)", "[not unwound]"]
    assert [_labels(found.place(site)) for site in range(1, 9)] == [
        ["xmalloc (util.c:7)", "read_line (read.c:20)"], ["xmalloc (util.c:7)", "keep (keep.c:44)"],
        ["std::vector<int>::push_back(int const&) (stl_vector.h:9)", "fill(int) (fill.cc:5)"], ["libplugin.so+0x1234"],
        ["my_pool_alloc (pool.c:1)", "use (use.c:8)"], ["make (m.cc:2)"],
        ["operator new(unsigned long) (own.cc:1)", "make (m.cc:2)"], ["[unknown]"]]
    assert _labels(found.of(0)) == ["[unknown]"]


@pytest.mark.parametrize(("wraps", "functions"), [(True, WRAPPERS), (False, OTHERS)], ids=["wrappers", "others"])
def test_wrappers_by_their_own_names(wraps: bool, functions: list[str]) -> None:
    assert {function for function in functions if Frame(function).wraps != wraps} == set()


def test_wrappers_by_their_files() -> None:
    assert all(Frame("make<T>", file, 3).wraps for file in LIBRARY_FILES) and not Frame("make<T>", "/app/library/alloc/src/vec.rs", 3).wraps


def test_runtime_libraries_allocate_for_their_callers(tmp_path: Path) -> None:
    libc = "/lib/libc.so.6"
    stacks = [[f"{libc}+0x{offset}" for offset in (1, 2, 3, 4)] + ["leak@a.c:1", "main@a.c:2"], [f"{libc}+0x1", "/lib/libstdc++.so.6+0x5", "leak@a.c:1"],
              [f"{libc}+0x1", "xmalloc@util.c:7", f"{libc}+0x2", "main@a.c:2"], [f"{libc}+0x1", f"{libc}+0x2"], ["leak@a.c:1", f"{libc}+0x2", "main@a.c:2"]]
    with read_trace(_write(tmp_path / "t.bin", _events(3, 10), sites_of(stacks))) as trace:
        found = Stacks(trace.sites)
    assert [_labels(found.place(site)) for site in range(1, 6)] == [
        ["libc.so.6+0x1", "libc.so.6+0x4", "leak (a.c:1)"], ["libc.so.6+0x1", "libstdc++.so.6+0x5", "leak (a.c:1)"],
        ["libc.so.6+0x1", "xmalloc (util.c:7)", "libc.so.6+0x2", "main (a.c:2)"], ["libc.so.6+0x1"], ["leak (a.c:1)"]]
    assert {module for module in RUNTIME_MODULES if not Frame("", module=module).in_runtime} == set()
    assert {module for module in PROGRAM_MODULES if Frame("", module=module).in_runtime} == set()


def test_wrappers_without_names(tmp_path: Path) -> None:
    made = nameless_stacks()
    with read_trace(_write(tmp_path / "t.bin", _events(3, 10), sites_of([stack for stack, _ in made], {f"/opt/{name}": name for name in OPT_MODULES}))) as trace:
        found = Stacks(trace.sites)
    assert [found.place(number)[-1].label for number in range(1, len(made) + 1)] == [site for _, site in made]
    assert [frame.label for frame in found.place(1)] == ["app+0x10", "app+0x20", "app+0x100"]


def test_what_is_a_wrapper_in_one_recording_is_one_in_the_other(tmp_path: Path) -> None:
    """Of seven callers, where the other has nine, each is its own call site, too."""
    many = [stack for stack, _ in nameless_stacks()[:9]]
    for name, stacks in (("old", many), ("new", many[:7])):
        _write(tmp_path / f"{name}.bin", [event for site in range(1, len(stacks) + 1) for event in _block(site, site, 10, 10 * site)], sites_of(stacks))
    found = json.loads(run_here("diff", tmp_path / "old.bin", tmp_path / "new.bin", "--json", cwd=tmp_path).stdout)
    assert found["compared"] == 9


def test_of_a_librarys_frames_the_first_and_the_last(tmp_path: Path) -> None:
    long = "std::map<std::string, std::vector<int, std::allocator<int> > >"
    stacks = [[f"std::__new_allocator<char>::allocate(unsigned long)@new.h:1|{long}::insert(int)@map.h:2|{long}::operator[](int const&)@map.h:3|handle(int)@a.cc:4"],
              ["<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter@v.rs:1", "app::Pool<u8>::alloc@p.rs:2", "app::main@m.rs:3"],
              ["<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc@u.rs:1", "__rustc::__rdl_alloc@a.rs:2", "alloc::alloc::alloc@a.rs:3", "std::sync::mpsc::channel@s.rs:4", "app::main@m.rs:3"]]
    with read_trace(_write(tmp_path / "t.bin", _events(3, 10), sites_of(stacks))) as trace:
        found = Stacks(trace.sites)
    assert place_text(found.place(1)) == "std::__new_allocator::allocate (new.h:1) ← std::map::operator[] (map.h:3) ← handle(int) (a.cc:4)"
    assert found.place(1)[1].function == f"{long}::operator[](int const&)"
    assert place_text(found.place(2)) == "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter (v.rs:1) ← app::Pool<u8>::alloc (p.rs:2) ← app::main (m.rs:3)"
    assert place_text(found.place(3)) == "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc (u.rs:1) ← std::sync::mpsc::channel (s.rs:4) ← app::main (m.rs:3)"


@pytest.mark.thorough
def test_copies_of_one_line_are_one_call_site(tmp_path: Path) -> None:
    """Code that is inlined at several places lies at several offsets; without a name each is one."""
    stacks = [[f"tick@job.c:4|main@main.c:{line}"] for line in range(1, 9)] + [[f"libold.so+0x{16 * n:x}"] for n in (1, 2)]
    events = [event for site in range(1, 11) for event in _block(site, site, 10, 10 * site)]
    path = _write(tmp_path / "t.bin", events, sites_of(stacks))
    rows = json.loads(run_here("sites", path, "--json", cwd=tmp_path).stdout)["call_sites"]
    assert [(row["frames"][0].get("function"), row["calls"], row["stacks"]) for row in rows] == [("tick", 8, [*range(1, 9)]), (None, 1, [9]), (None, 1, [10])]


@pytest.mark.parametrize("cut", [0, 1])
def test_names_behind_the_cut_are_lost_alone(tmp_path: Path, cut: int) -> None:
    """Strings come last: without them stacks are known by their offsets."""
    data = _write(tmp_path / "whole.bin", [*_block(1, 1, 20, 0), *_block(2, 2, 10, 0)], sites_of(STACKS)).read_bytes()
    with read_trace(tmp_path / "whole.bin") as trace:
        strings = trace._of_kind(Kind.STRINGS)[0].offset if cut else len(data) - 30
    (tmp_path / "t.bin").write_bytes(data[:strings])
    done = run_here("sites", "t.bin", cwd=tmp_path)
    assert done.returncode == 3 and "cut short" in done.stderr and ("read_line" in done.stdout) == (not cut) and "30.0 B; live" in done.stdout


def test_modules_without_names_are_told_apart(tmp_path: Path) -> None:
    sites = sites_of([["liba.so+0x10"], ["libb.so+0x10"]])
    for module in sites.modules:
        module["path"] = ""
    path = _write(tmp_path / "t.bin", [*_block(1, 1, 20, 0), *_block(2, 2, 10, 0)], sites)
    assert [row.split()[-1] for row in run_here("sites", path, cwd=tmp_path).stdout.splitlines()[3:]] == ["module", "2+0x10", "module", "3+0x10"][1::2]


@pytest.mark.thorough
def test_stacks_deeper_than_pythons_own(tmp_path: Path) -> None:
    deep = [f"f{n}@deep.c:{n}" for n in range(4000)]
    path = _write(tmp_path / "t.bin", _block(1, 1, 64, 0), sites_of([deep]))
    tree = run_here("sites", path, "--tree", cwd=tmp_path)
    assert tree.returncode == 0 and len(tree.stdout.splitlines()) == 4004
    whole = run_here("sites", path, "--tree", "--json", cwd=tmp_path)
    assert whole.returncode == 0 and whole.stdout.count('"children": [') == 4001 and whole.stdout.count("[") == whole.stdout.count("]")
    page = run_here("explain", "--html", "page.html", "--budget", "0", "-q", path, cwd=tmp_path)
    assert page.returncode == 0, page.stderr


def _block(site: int, slot: int, size: int, time: int, life: int = 0) -> list[Event]:
    return [Event(MALLOC, 0, 0, time, slot, size, site=site)] + [Event(FREE, 0, 0, time + life, slot)] * bool(life)


def test_what_allocates_by_functions_that_differ_in_arguments_alone_is_one_call_site(tmp_path: Path) -> None:
    """One push_back of a std::deque allocates a node and, now and then, the map of the nodes."""
    stacks = [[f"std::__new_allocator<{of}>::allocate(unsigned long)@/usr/include/c++/12/bits/new_allocator.h:137|std::deque<char*>::{inner}@/usr/include/c++/12/bits/"
               f"deque.tcc:{line}|std::deque<char*>::push_back(char*&&)@/usr/include/c++/12/bits/stl_deque.h:1548|put(char*)@cache.cc:{put}"]
              for of, inner, line, put in (("char*", "_M_allocate_node()", 583, 7), ("char**", "_M_reserve_map_at_back()", 2167, 7), ("char*", "_M_allocate_node()", 583, 9))]
    path = _write(tmp_path / "t.bin", [event for site in (1, 2, 3) for event in _block(site, site, 10 * site, 10 * site)], sites_of(stacks))
    texts = [line.split("  ")[-1] for line in run_here("sites", path, cwd=tmp_path).stdout.splitlines()[3:]]
    library = "std::__new_allocator::allocate (new_allocator.h:137) ← std::deque::push_back (stl_deque.h:1548)"
    assert texts == [f"{library} ← put(char*) (cache.cc:7)", f"{library} ← put(char*) (cache.cc:9)"]
    rows = json.loads(run_here("sites", path, "--json", cwd=tmp_path).stdout)["call_sites"]
    assert [(row["calls"], row["bytes"], row["stacks"]) for row in rows] == [(2, 30, [1, 2]), (1, 30, [3])]
    assert rows[0]["frames"][0]["function"] == "std::__new_allocator<char*>::allocate(unsigned long)"


def test_rows_of_a_tree_whose_functions_have_the_same(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.bin", _block(1, 1, 100, 10) + _block(2, 2, 100, 20), sites_of([[f"{name}{i}@f.c:{i}" for i in range(40)] for name in "ab"]))
    tree = run_here("sites", path, "--tree", "--rows", "3", cwd=tmp_path).stdout.splitlines()[3:]
    assert [word for line in tree for word in line.split() if word[0] in "[ab"] == ["[all]", "a39", "a38", "a37"]


def test_tables_and_trees(tmp_path: Path) -> None:
    events = [event for i in range(6) for event in _block(1, 1, 10, 10 * i, 5)] + _block(2, 2, 1000, 100) + _block(3, 3, 4000, 110, 20) + _block(4, 4, 7, 140)
    path = _write(tmp_path / "t.bin", events, sites_of(STACKS))
    calls, end = (run_here("sites", path, "--by", by, cwd=tmp_path).stdout.splitlines()[3:] for by in ("calls", "end"))
    assert calls[0].split("  ")[-1] == "xmalloc (util.c:7) ← read_line (read.c:20)" and calls[0].split()[:6] == ["6", "60.0", "B", "5.00", "ns", "0"]
    assert end[0].endswith("keep (keep.c:44)") and "1.00 kB" in end[0] and len(end) == 4
    assert run_here("sites", path, "--rows", "1", cwd=tmp_path).stdout.endswith("3 more call sites; --rows 0 shows all\n")
    peak = json.loads(run_here("sites", path, "--by", "peak", "--json", cwd=tmp_path).stdout)
    assert peak["peak_bytes"] == 5000 and [(row["peak_bytes"], row["stacks"]) for row in peak["call_sites"][:2]] == [(4000, [3]), (1000, [2])]
    assert peak["call_sites"][0]["frames"][1] == {"function": "fill(int)", "file": "fill.cc", "line": 5, "module": "/usr/bin/job"}
    tree = run_here("sites", path, "--by", "peak", "--tree", cwd=tmp_path).stdout.splitlines()[2:]
    assert [" ".join(line.split()) for line in tree] == [
        "share bytes live at peak function", "100 % 5.00 kB [all]", "100 % 5.00 kB main (main.c:3)", "80 % 4.00 kB fill(int) (fill.cc:5)",
        "80 % 4.00 kB std::vector<int>::push_back(int const&) (stl_vector.h:9)", "20 % 1.00 kB keep (keep.c:44)", "20 % 1.00 kB xmalloc (util.c:7)"]
    assert [len(run_here("sites", path, "--tree", "--by", "peak", "--rows", rows, cwd=tmp_path).stdout.splitlines()) - 3 for rows in "1 2 4 0".split()] == [2, 3, 5, 9]
    assert len(json.loads(run_here("sites", path, "--json", "--rows", "2", cwd=tmp_path).stdout)["call_sites"]) == 2
    whole = json.loads(run_here("sites", path, "--tree", "--json", cwd=tmp_path).stdout)["tree"]
    assert whole["calls"] == 9 and [child["bytes"] for child in whole["children"][0]["children"]] == [4000, 1000, 60, 7]


@pytest.mark.parametrize(("words", "said"), [
    (["--to", "pprof"], "--to, -o: expected both"), (["-o", "x"], "--to, -o: expected both"),
    (["--tree", "--by", "lifetime"], "expected a figure with a sum"), (["--to", "dhat", "-o", "t.bin"], "would overwrite"),
    (["--rows", "x"], "expected a number of rows"), (["--rows", "1", "--to", "dhat", "-o", "x"], "--rows: expected a table"),
    (["--by", "lifetime", "--to", "dhat", "-o", "x"], "expected a figure with a sum"), (["--to", "dhat", "-o", "x", "--json"], "expected one of them"),
])
def test_usage(tmp_path: Path, words: list[str], said: str) -> None:
    _write(tmp_path / "t.bin", _events(3, 10), sites_of(STACKS))
    done = run_here("sites", "t.bin", *words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""
