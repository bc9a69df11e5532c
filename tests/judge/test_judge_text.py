# SPDX-License-Identifier: Apache-2.0
"""What a comparison says to people. Whole texts of all kinds of figures are in tests/oracle; here is what single facts change."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from heaptape.judge.comparison import compare
from heaptape.judge.model import Cell, Choice, Comparison, ControlCall, Failing, Json, Machine, Measurements, Program, Trace
from heaptape.judge.text import print_comparison
from judged_runs import blank, cell, context, measurements

MB = 1e6
NO_FIGURES: Json = {"latency_ns": None, "latency_by_size_ns": None, "latency_floor_ns": None, "latencies_dropped": 0, "syscalls": None,
                    "syscalls_missing": "the warm-up failed", "slop_bytes": None, "slop_mean_bytes": None, "allocator_stats": None}
PERF: Json = {"instructions": 1_234.5, "cycles": -0.25, "cache_misses": None, "llc_load_misses": None, "dtlb_load_misses": None,
              "branch_misses": 7, "context_switches": 3, "cpu_migrations": 1, "scope": "user", "missing": "not permitted"}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LC_ALL"):
        monkeypatch.delenv(name, raising=False)


def _choice(name: str, **given: Any) -> Choice:
    return blank(Choice, **{"name": name, "shown": name, "version": "1.0"} | given)


def _made(choices: Sequence[Choice], rounds: Sequence[Sequence[Cell]], *, plan: Json | None = None, program: Json | None = None,
          trace: Json | None = None, figures: Json | None = None, **given: Any) -> Comparison:
    """rounds: a cell for each choice, and for the control where there is one."""
    found: Measurements = measurements(rounds)
    found.failing = [Failing(runs=2 * len(rounds)) for _ in choices]
    found.figures = [NO_FIGURES | (figures or {}) for _ in choices]
    found.repeats = 1
    plan = {"trace_path": "/tmp/t.bin", "seed": 7, "thp": None} | (plan or {})
    parts = {"choices": list(choices), "program": blank(Program, **{"has_samples": True} | (program or {})),
             "trace": blank(Trace, **{"calls": 525, "threads": 1} | (trace or {}))}
    return compare(context([], plan=plan, **parts | given), found)


def _text(comparison: Comparison) -> str:
    out = io.StringIO()
    print_comparison(comparison, out)
    return out.getvalue()


def _of_two(time: float = 0.8, peak: float = 1.2, count: int = 3, **given: Any) -> Comparison:
    """The second has so much of what the first has, in all rounds."""
    def one(factors: tuple[float, float]) -> Cell:
        return cell({"alloc_time_ns": 20 * MB * factors[0]},
                    {"rss_peak_bytes": 24 * MB * factors[1], "rss_between_calls_peak_bytes": 24 * MB * factors[1]})
    rows = [[one((1, 1)), one((time, peak)), one((1, 1))] for _ in range(count)]
    return _made([_choice("glibc"), _choice("jemalloc")], rows, **given)


def _line(text: str, beginning: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(beginning)]
    assert len(found) == 1, (beginning, text)
    return found[0]


def _without(text: str, beginning: str) -> bool:
    return not any(line.startswith(beginning) for line in text.splitlines())


def test_the_whole_of_it() -> None:
    made = _of_two(program={"command": "job --with words", "allocator": "glibc", "allocator_version": "1.0", "has_samples": True})
    assert _text(made) == """\
t.bin  job --with words, recorded under glibc 1.0
525 calls, 3 rounds, seed 7
A/A control (glibc again): time 1.00 [1.00, 1.00], peak RSS 1.00 [1.00, 1.00]

allocator        time      min  per call  vs glibc           page faults  verdict
glibc 1.0     20.0 ms  20.0 ms   10.0 ns  1.00                         0
jemalloc 1.0  16.0 ms  16.0 ms   10.0 ns  0.80 [0.80, 0.80]            0  faster

allocator     peak RSS  vs glibc           mean RSS  RSS at end  peak RSS/live  process  verdict
glibc 1.0      24.0 MB  1.00                 1.0 MB      1.0 MB           1.00        -
jemalloc 1.0   28.8 MB  1.20 [1.20, 1.20]    1.0 MB      1.0 MB           1.00        -  larger

fastest: jemalloc, 1.25x [1.25, 1.25] the speed of glibc.  smallest peak: glibc.
harness (null allocator): 100.0 us, 190.5 ns per call, subtracted from each time; 1.00 MB, subtracted from each RSS
harness's share of the time measured: glibc 0 %, jemalloc 1 %
"""


@pytest.mark.parametrize(("recorded", "says"), [("0.9", True), ("1.0", False), ("1.0.1", False), ("", False)])
def test_another_release_than_the_programs_comes_first(recorded: str, says: bool) -> None:
    rows = [[cell({"alloc_time_ns": MB}), Cell()]]
    made = _made([_choice("glibc", serves=True)], rows, plan={"memory_pass": False}, program={"allocator": "glibc", "allocator_version": recorded})
    first = "caution: the program ran under glibc 0.9, and glibc here is 1.0: its figures are not those that the program had"
    assert (_text(made).splitlines()[0] == first) == says


@pytest.mark.parametrize(("largest_ns", "shown"), [(2e9, "2.00 s"), (1e9, "1.00 s"), (999e6, "999.0 ms"), (5e5, "500.0 us"), (0, "0.0 us")])
def test_one_unit_for_a_column_of_times(largest_ns: float, shown: str) -> None:
    made = _made([_choice("glibc")], [[cell({"alloc_time_ns": largest_ns}), Cell()]], plan={"memory_pass": False})
    assert _line(_text(made), "glibc 1.0").split("  ")[1] == shown


@pytest.mark.parametrize(("command", "shown"), [("x" * 60, "x" * 60), ("x" * 61, "x" * 60 + "..."), ("é" * 31, "é" * 30 + "..."),
                                                ("x" + "é" * 30, "x" + "é" * 29 + "..."), ("a\nb", "a\\x0ab")])
def test_a_long_command_ends_between_characters(command: str, shown: str) -> None:
    assert _text(_of_two(program={"command": command})).splitlines()[0] == f"t.bin  {shown}"


def test_what_the_heading_says_of_the_trace() -> None:
    made = _of_two(plan={"scale": 3, "aged_blocks": 1_000, "age_occupancy": 0.4567, "trace_path": "t"}, program={"extended_words": "and so on"},
                   trace={"inherited_objects": 1, "has_prelude": True})
    made.measurements.repeats = 4
    assert _text(made).splitlines()[:3] == ["t", "and so on", (
        "3 copies side by side, together 525 calls, 3 rounds, seed 7; 1 block inherited, after a replay of all calls before; on a used heap: "
        "1,000 blocks, of which 45.7 % stay; time is the mean of 4 repeats in each run")]


def test_one_round_is_not_enough() -> None:
    text = _text(_of_two(count=1))
    assert _line(text, "jemalloc 1.0  16").endswith("0.80                0  unresolved (one round is not enough)")
    assert _line(text, "fastest: ") == ("fastest: none is clearly faster than glibc (no clear difference: jemalloc).  "
                                        "smallest peak: none is clearly smaller than glibc (no clear difference: jemalloc).")


def test_a_name_has_settings_and_its_bytes_are_limited() -> None:
    made = _made([_choice("glibc", shown="glibc:" + "é" * 200, version="v" * 40)], [[cell({}), Cell()]], plan={"memory_pass": False})
    assert _line(_text(made), "glibc:").startswith("glibc:" + "é" * 117 + " " + "v" * 30 + "  ")


def test_a_peak_within_a_call() -> None:
    cells = [cell(None, {"rss_peak_bytes": 100 * MB, "rss_between_calls_peak_bytes": between * MB}) for between in (94, 96)]
    assert _line(_text(_made([_choice("a"), _choice("b")], [[*cells, cells[0]]])), "peak RSS within") == (
        "peak RSS within a call, as of a realloc that copies; at readings between calls at most: a 94.0 MB")
    cells[1] = cells[0]
    assert _line(_text(_made([_choice("a"), _choice("b")], [[*cells, cells[0]]])), "peak RSS within").endswith(": a 94.0 MB, b 94.0 MB")


def test_what_the_process_held_is_said_where_it_is_known() -> None:
    memory = {"process_rss_peak_bytes": 3 * MB}
    text = _text(_made([_choice("a")], [[cell(None, memory), Cell()]], program={"share_own_bytes": 1_250_000}))
    assert "process: peak RSS with what the program held itself at each moment (1.2 MB at most), without file pages\n" in text
    assert _without(_text(_of_two()), "process: ")


def test_cautions_stand_before_all() -> None:
    check = {"peak_error": 1.0, "words": "the replay is not what the program ran under"}
    memory = {"baseline_check": check}
    made = _made([_choice("glibc", serves=True), _choice("b")], [[cell({}, memory), cell({}, {}), cell({}, {})]] * 2,
                 program={"share_words": "most is not malloc's"})
    text = _text(made)
    assert text.startswith("caution: most is not malloc's\ncaution: the replay is not what the program ran under\nt.bin\n")
    fastest, smallest = (f"{title}: none is clearly {better} than glibc (no clear difference: b)."
                         for title, better in (("fastest", "faster"), ("smallest peak", "smaller")))
    assert _line(text, "of malloc's") == f"of malloc's part alone: {fastest}"
    check["words"] = None
    assert "caution: the" not in _text(made) and _line(_text(made), "of malloc's") == f"of malloc's part alone: {fastest}  {smallest}"


def test_one_of_several_processes() -> None:
    assert _line(_text(_of_two(program={"forked": True})), "fastest").endswith("glibc.  (one of several processes; shared pages are not counted)")


def test_an_own_allocator_is_not_replayed() -> None:
    program = {"linked": True, "rss_peak_bytes": 10 * MB, "allocator": "own", "allocator_version": "2"}
    memory = {"process_rss_peak_bytes": 9 * MB}
    made = _made([_choice("a"), _choice("b")], [[cell({}, memory), cell({}, memory), cell({}, memory)]], program=program)
    assert _text(made).splitlines()[0] == (
        "the program's own own 2 is part of it and not replayed: it held 10.0 MB at its peak; of that the process would hold 0.90 under a, 0.90 under b; "
        "no figure of time is held against it")


def test_what_is_refused_is_said_first_and_not_missing() -> None:
    made = _of_two()
    made.context.choices[1] = _choice("jemalloc", refusal="refuses 3 of 4 calls", refused_calls=3)
    made.measurements.failing[1].failed = 6
    text = _text(made)
    assert text.splitlines()[0] == "jemalloc refuses 3 of 4 calls: no figure of it would be of this program, and it is not replayed"
    assert _without(text, "missing")


@pytest.mark.parametrize(("rounds_in_a_row", "more"), [(1, ""), (2, ", then no more were made")])
def test_what_is_missing(rounds_in_a_row: int, more: str) -> None:
    made = _of_two()
    made.measurements.failing[1] = Failing(6, 2, rounds_in_a_row, 1, "died of\nsignal 9")
    assert _line(_text(made), "missing") == f"missing: jemalloc failed in 2 of 6 runs{more}; the last: died of\\x0asignal 9"


def test_the_null_replayer_has_no_figures() -> None:
    made = _of_two()
    text = _text(_made([_choice("glibc")], [[Cell(), Cell()]]))
    assert _line(text, "glibc 1.0     -") == "glibc 1.0     -    -         -  -                   -"
    assert _without(text, "fastest") and "A/A" not in text and "A/A" in _text(made)


def test_harness_with_blocks_that_stay() -> None:
    text = _text(_of_two(plan={"aged_kept_bytes": 250_000, "time_pass": False}))
    assert _line(text, "harness (null") == ("harness (null allocator): 100.0 us, 190.5 ns per call, subtracted from each time; "
                                            "0.75 MB and 0.25 MB of blocks that stay, subtracted from each RSS")
    assert "0.0 ns per call" in _text(_of_two(trace={"calls": 0}))


def test_what_malloc_takes_of_the_program() -> None:
    served = {"program": {"allocator": "glibc", "cpu_ns": 40 * MB}}
    for time, sentence in ((0.8, "jemalloc would save about 10.0 %"), (1.0, "no other allocator clearly saves any of it")):
        made = _of_two(time, **served)
        made.context.choices[0] = _choice("glibc", serves=True)
        assert _line(_text(made), "malloc's share") == (
            f"malloc's share: glibc takes 50.0 % of the recorded program's 0.04 s of CPU; {sentence}; where blocks lie also changes the program's own time")
    assert _without(_text(_of_two(**served)), "malloc's share")


@pytest.mark.parametrize(("program", "end"), [
    ({"heap_peak_bytes": 20 * MB}, ", 20.0 MB of it in the heap; replayed under glibc: 24.0 MB (+20.0 %)"),
    ({"heap_low_bytes": 5 * MB, "heap_high_bytes": 9 * MB}, ", how much of it in the heap is unknown (5.0 to 9.0 MB): no replay is held against it"),
    ({"heap_peak_bytes": 20 * MB, "share_words": "little", "share_explained_bytes": 3_000_000}, ", 3.0 MB of it in the heap"),
    ({}, ""),
    ({"heap_peak_bytes": 0.0}, ", 0.0 MB of it in the heap; replayed under glibc: 24.0 MB (+inf %)"),
])
def test_what_the_program_held(program: Json, end: str) -> None:
    made = _of_two(program={"allocator": "glibc", "has_samples": True, "rss_peak_bytes": 30 * MB} | program)
    made.context.choices[0] = _choice("glibc", serves=True)
    assert _line(_text(made), "recorded program") == f"recorded program: 30.0 MB peak RssAnon{end}"


def test_memory_that_is_not_in_the_trace() -> None:
    assert _line(_text(_of_two(program={"has_samples": False})), "recorded") == (
        "recorded program: its memory is not in the trace: no replay is held against it")


def test_instructions_beside_times() -> None:
    made = _of_two(plan={"instructions": True, "memory_pass": False})
    made.measurements.counts = {"glibc": {"allocator": {"instructions": 1_050, "mapping_calls": 30}, "program": {"instructions": 5}}, "jemalloc": None}
    assert _text(made).partition("faster\n\n")[2].splitlines()[:3] == [
        "allocator     instructions  per call  vs glibc  mapping calls  the replay's own",
        "glibc 1.0            1,050       2.0    1.0000             30                 5",
        "jemalloc 1.0           n/a         -         -            n/a               n/a"]


def _controls(names: Sequence[str], *calls: ControlCall) -> list[str]:
    rows = [[cell({})] * (len(names) + 1)]
    text = _text(_made([_choice(name) for name in names], rows, plan={"memory_pass": False}, control_calls=list(calls)))
    return [line.removeprefix("the program calls ") for line in text.splitlines() if line.startswith("the program calls ")]


def test_who_obeys_control_calls() -> None:
    names = ["glibc", "jemalloc", "mimalloc", "tcmalloc"]
    trim, arena = ControlCall("malloc_trim", 6, True, False, ["glibc"]), ControlCall("mallopt(M_ARENA_MAX)", 1, True, False, ["glibc"])
    advice, told = ControlCall("madvise", 2, True, True, names), ControlCall("malloc_stats", 9, False, False, [])
    nobody, everybody = ControlCall("x", 1, True, False, []), ControlCall("y", 1, True, False, names)
    three = ControlCall("z", 1_000, True, False, ["tcmalloc", "glibc", "jemalloc"])
    assert _controls(names, trim, told, advice, arena, nobody, everybody, three) == [
        "malloc_trim 6 times, mallopt(M_ARENA_MAX) once: glibc alone obeys", "madvise 2 times: replayed on the same bytes",
        "x once: none of these obeys", "y once: all obey", "z 1,000 times: glibc, jemalloc and tcmalloc alone obey"]
    assert _controls(["glibc"], trim, nobody, ControlCall("madvise", 2, True, True, ["glibc"])) == [
        "malloc_trim 6 times: glibc obeys", "x once: glibc does not obey", "madvise 2 times: replayed on the same bytes"]
    assert _controls(["glibc"], told) == []


def test_functions_by_their_expense() -> None:
    calls = {"malloc": {"count": 2, "time_ns": None, "touch_ns": None}, "free": {"count": 4, "time_ns": 100, "touch_ns": 0},
             "realloc": {"count": 1, "time_ns": 200, "touch_ns": 100}, "calloc": {"count": 3, "time_ns": None, "touch_ns": None},
             "memalign": {"count": 1, "time_ns": 100, "touch_ns": 0}}
    text = _text(_made([_choice("a")], [[cell({"calls": calls, "wait_time_ns": 1_500}), Cell()]], plan={"verbose": True, "memory_pass": False}, trace={"threads": 2}))
    assert text.partition("\n\na\n")[2].splitlines()[:10] == [
        "% time   seconds  ns/call  calls  function",
        " 40.00  0.000000    200.0      1  realloc",
        " 20.00  0.000000     25.0      4  free",
        " 20.00  0.000000    100.0      1  memalign",
        "     -         -        -      3  calloc",
        "     -         -        -      2  malloc",
        " 20.00  0.000000                  (first touch of the returned blocks)",
        "", "split by about 100 timed calls per run; the clock's own 20.0 ns are subtracted from each reading",
        "a: threads waited 1.5 us for each other, not counted above"]


def test_outliers_are_told() -> None:
    times = [1 + number / 1e3 for number in range(12)]
    times[4], times[9] = 5, 6
    rows = [[cell({"alloc_time_ns": time * MB}), Cell()] for time in times]
    made = _made([_choice("a")], rows, plan={"verbose": True, "memory_pass": False})
    assert _line(_text(made), "outliers") == "outliers, kept: time of a in rounds 5, 10"


def test_huge_pages_are_told_where_there_could_be_any() -> None:
    def told(bytes_in_them: float | None, mode: str, **plan: Any) -> list[str]:
        memory = {"anon_huge_peak_bytes": bytes_in_them}
        made = _made([_choice("a"), _choice("b")], [[cell({}, memory), cell({}, {}), cell()]], machine=blank(Machine, thp=mode), plan=plan)
        return [line for line in _text(made).splitlines() if line.startswith("transparent")]
    assert told(None, "madvise") == told(0, "") == []
    assert told(2_500_000, "") == ["transparent huge pages: n/a; of peak RSS in them: a 2.5 MB, b n/a"]
    assert told(None, "always", memory_pass=False) == told(None, "always", thp="always", memory_pass=False) == ["transparent huge pages: always"]
    assert told(0, "never", thp="never") == ["transparent huge pages: never; of peak RSS in them: a 0.0 MB, b n/a"]


def test_what_is_made_of_processors() -> None:
    memory = {"arenas": 4, "arenas_max": None, "processors_asked": True}
    choices = [_choice("a", by_processors="arenas"), _choice("b")]
    text = _text(_made(choices, [[cell({}, memory), cell({}, {}), cell()]], plan={"processors": 16}))
    assert """
processors shown: 16
allocator  arenas  at most  asked  makes of the processors
a               4      n/a  yes    arenas
b             n/a      n/a  no     not known
""" in text


# --- -v

def _row(count: int, kind: str = "", to_bytes: float = 0) -> Json:
    return {"count": count, "p50": 10.04, "p90": 20.0, "p99": 30.0, "p999": 40.5, "max": 50.5, "kind": kind, "to_bytes": to_bytes}


def _verbose(figures: Json, time: Json | None = None, memory: Json | None = None, **plan: Any) -> str:
    made = _made([_choice("a")], [[cell(time, memory), Cell()]], figures=figures, plan={"verbose": True} | plan)
    return _text(made)


def test_latencies() -> None:
    figures = {"latency_ns": {"malloc": _row(1_000), "free": _row(99), "calloc": _row(100)}, "latency_floor_ns": 16.66, "latencies_dropped": 1,
               "latency_by_size_ns": [_row(100, "allocate", 1), _row(99, "allocate", 2), _row(200, "free", 1 << 19), _row(100, "query", 2.0**64)]}
    assert """
a
 p50   p90   p99  p99.9  max  timed  latency in ns
10.0  20.0  30.0     40   50  1,000  malloc
10.0  20.0   n/a    n/a   50     99  free
10.0  20.0  30.0    n/a   50    100  calloc
10.0  20.0  30.0    n/a   50    100  allocate up to 1
10.0  20.0  30.0    n/a   50    200  free up to 512 KiB
10.0  20.0  30.0    n/a   50    100  query up to 16 EiB
1,199 calls timed, 1 reading dropped because the thread was switched out; the clock's own 16.7 ns are subtracted from each
""" in _verbose(figures, {}, memory_pass=False)


def test_a_table_of_latencies_ends() -> None:
    figures = {"latency_ns": {"malloc": _row(1_000)}, "latency_floor_ns": 16.0, "latencies_dropped": 0,
               "latency_by_size_ns": [_row(100, "allocate", 1 << size % 60) for size in range(200)]}
    assert _verbose(figures, {}, memory_pass=False).count("allocate up to") == 126


def test_counters() -> None:
    text = _verbose({}, {"perf": PERF, "voluntary_switches": 1_000, "involuntary_switches": 0.5}, memory_pass=False)
    assert """
allocator  instructions  cycles  cache misses  LLC misses  dTLB misses  branch misses  switches
a                 1,235      -0           n/a         n/a          n/a              7     1,001
n/a, processor counters: not permitted
""" in text


def test_system_calls() -> None:
    calls = {name: {"calls": 1_000 * number, "bytes": 1_500_000} for number, name in enumerate(("mmap", "munmap", "mremap", "madvise", "mprotect"))}
    assert """
system calls  mmap  munmap  mremap  madvise  brk  mprotect  MB unmapped or advised
a                0   1,000   2,000    3,000    5     4,000                     3.0

""" in _verbose({"syscalls": calls | {"brk": {"calls": 5}}, "syscalls_missing": None}, {})
    assert """
a              n/a     n/a     n/a      n/a  n/a       n/a                     n/a
n/a: the warm-up failed
""" in _verbose({}, {})


def _part(rss_mb: float, **more: float) -> Json:
    return {"rss_bytes": rss_mb * MB, "requested_bytes": 5 * MB, "internal_bytes": None, "untouched_bytes": 0, "other_bytes": MB, "lazyfree_bytes": None} | more


def test_rss_taken_apart() -> None:
    memory = {"decomposition": {"peak": _part(10, lazyfree_bytes=MB), "end": _part(0)}, "rss_after_free_bytes": 2 * MB, "rss_after_purge_bytes": None}
    assert """
at peak RSS  one run's RSS  = live, requested  + internal      - untouched  + cached, external, metadata  (LazyFree in it)
a                 10.00 MB    5.00 MB  50.0 %         n/a  0.00 MB   0.0 %               1.00 MB  10.0 %           1.00 MB

at the end  one run's RSS  = live, requested  + internal  - untouched  + cached, external, metadata  all freed  purged
a                 0.00 MB            5.00 MB         n/a      0.00 MB                       1.00 MB    2.00 MB     n/a
""" in _verbose({}, None, memory, time_pass=False)
    assert """
at the end  one run's RSS  = live, requested  + internal  - untouched  + cached, external, metadata  all freed  purged
a                     n/a                n/a         n/a          n/a                           n/a        n/a     n/a
""" in _verbose({}, None, {"rss_after_free_bytes": 2 * MB}, time_pass=False)


def test_what_is_left_over_and_an_allocators_own_figures() -> None:
    stats = {"peak": {"live_bytes": 2 * MB, "usable_bytes": 3 * MB, "mapped_bytes": 4 * MB, "free_bytes": None}, "end": {"live_bytes": 0, "usable_bytes": 0}}
    text = _verbose({"slop_bytes": 1_250_000, "allocator_stats": stats}, {}, {"lazyfree_bytes": 0, "swap_bytes": 3 * MB})
    assert """
allocator  slop at peak  mean slop  LazyFree at end  huge pages at end  swapped at end
a               1.25 MB        n/a          0.00 MB                n/a         3.00 MB

a's own figures at the live peak, in MB: requested 2.00, mapped 4.00, free n/a
a's own figures at the end, in MB: requested 0.00
""" in text
    text = _verbose({"allocator_stats": stats | {"peak": None}}, {}, {})
    assert "at the live peak" not in text and "at the end, in MB" in text


def test_a_time_that_the_harness_hides_has_no_verdict() -> None:
    """Neither a ratio nor an interval has an end that is 0 or infinite."""
    for time in (-0.05, 0.0):
        row = next(line for line in _text(_of_two(time, count=12)).splitlines() if line.startswith("jemalloc"))
        assert " - " in row and row.endswith("unresolved (the harness hides the time)")
    hidden = _text(_of_two(0.8, peak=0.0, count=3)).splitlines()
    assert [line.split("  ")[-1].strip() for line in hidden if line.startswith("jemalloc")] == ["faster", "unresolved (the harness hides the memory)"]
