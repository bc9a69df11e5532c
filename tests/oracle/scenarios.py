# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the oracle: which figures a replay finds, how it is asked, and what becomes of its results."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from asking import ALLOCATORS, RESULTS, Scenario
from naive_writer import Event, TraceSpec, build

MS, MB = 1_000_000, 1_000_000
NULL_NS, BASE_NS, PEAK_BYTES, NULL_RSS = 2 * MS, 20 * MS, 24 * MB, MB
VERSIONS = {"glibc": "2.36", "jemalloc": "5.3.0", "mimalloc": "2.1.2", "tcmalloc": "2.10", "null": ""}
MALLOC, CALLOC, REALLOC, FREE, ALIGNED_ALLOC, QUERY, CONTROL, INHERIT = 1, 2, 3, 5, 7, 26, 29, 31
Truth = dict[str, tuple[float, float]]
"""Allocator: its time and its peak, of the baseline's."""
TWO: Truth = {"glibc": (1, 1), "jemalloc": (0.8, 1.2)}
THREE: Truth = {"glibc": (1, 1), "jemalloc": (0.7, 1.3), "mimalloc": (0.72, 0.9)}
EIGHT: Truth = {"glibc": (1, 1), "jemalloc": (0.7, 1.3), "mimalloc": (0.72, 0.9), "tcmalloc": (1.003, 1.002), "dlmalloc": (1.4, 0.99),
                "rpmalloc": (0.71, 1.5), "snmalloc": (0.9, 0.9), "tbbmalloc": (0.7, 2.0)}
FIGURES = ("time", "rss_peak", "rss_mean", "rss_end", "process_rss_peak")


# --- traces

def trace(blocks: int = 300, **options: Any) -> bytes:
    return written(blocks, json.dumps(options))


@cache
def written(blocks: int, options: str) -> bytes:
    return made_trace(blocks, **json.loads(options))


def made_trace(blocks: int, *, block_bytes: int = 60_000, threads: int = 1, held: float = 4 / 3, own: int = MB, samples: bool = True,
               odd: str = "", **more: Any) -> bytes:
    """Grows to all blocks and falls to a quarter of them; the recorded program held so many times what is live. more: of the
    context where it begins with c_, else of the totals."""
    events: list[Event] = []
    unit = 20_000
    if odd == "inherited":
        events += [Event(INHERIT, slot=blocks + 1 + i, size=5_000) for i in range(20)]
    for i in range(blocks):
        function, variant, extra = MALLOC, 0, 0
        if odd == "functions":
            function = (MALLOC, CALLOC, ALIGNED_ALLOC, MALLOC)[i % 4]
            extra = {CALLOC: 1, ALIGNED_ALLOC: 64}.get(function, 0)
        if odd == "zeroed" and i % 2:
            function, extra = CALLOC, 1
        events.append(Event(function, variant, time=i * unit, thread=i % threads, slot=i + 1, size=block_bytes, extra=extra))
        if odd == "queries":
            events.append(Event(QUERY, time=i * unit, thread=i % threads, slot=i + 1))
    for i in range(blocks * 3 // 4):
        events.append(Event(FREE, time=(blocks + i) * unit, thread=i % threads, slot=blocks - i))
    if odd == "controls":  # mallopt(M_TRIM_THRESHOLD, 100000), malloc_trim(0), mi_collect
        events += [Event(CONTROL, time=events[-1].time + unit, size=(1 << 64) - 255, extra=100_000)]
        events += [Event(CONTROL, time=events[-1].time, size=call) for call in (2, 7)]
    found, live = [], 0
    for number, event in enumerate(events):
        live += event.size if event.function in (MALLOC, CALLOC, ALIGNED_ALLOC) else -block_bytes if event.function == FREE else 0
        if number % max(1, len(events) // 20) == 0:
            found.append((event.time, number, int(held * live) + own, own, number * 100_000, 0))
    context = {"command": "job --with words", "page_bytes": 4096, "pid": 7, "allocator_name": "glibc", "allocator_version": "2.36"}
    context |= {key[2:].replace("__", "."): value for key, value in more.items() if key.startswith("c_")}
    totals: dict[str, Any] = {"events": sum(event.function < 28 for event in events), "records": len(events),
                              "duration_ns": events[-1].time + unit, "recorded_rss_peak_bytes": 1}
    totals |= {key: value for key, value in more.items() if not key.startswith("c_")}
    rows = [(i, 0, 0, len(events) // threads, 0, 0, f"worker {i}") for i in range(threads)] if threads > 1 else []
    spec = TraceSpec(events, {key: value for key, value in context.items() if value is not None}, totals, found if samples else [], threads=rows)
    return build(spec)[0]


# --- scripts

def line(name: str, which: str, run: int | str, **keys: Any) -> str:
    values = "\t".join(f"{key}={value}" for key, value in keys.items() if not isinstance(value, list))
    lists = "\t".join(f"{key}={value}" for key, found in keys.items() if isinstance(found, list) for value in found)
    return "\t".join(filter(None, (name, which, str(run), values, lists))) + "\n"


def curve(*points: float) -> str:
    return ":".join(str(int(point)) for point in points)


def descriptions(names: Any) -> str:
    text = line("*", "*", "*", background_threads=0, after_free=MB, after_purge=MB, arenas=1, arenas_max=8, watched=1, purged=1, purge_call="malloc_trim",
                swap_end=0, lazyfree_end=0, huge_end=0, clock_cost_ticks=50, ticks=3_000_000, ticks_ns=1_000_000)
    for number, name in enumerate(names):
        text += line(name, "describe", "*", kind=name, version=VERSIONS.get(name, "1.0"), path=f"/nowhere/lib{name}.so", build_id=f"{number:02x}" * 20)
    return text


def noise(rng: Random, ppm: int) -> float:
    """Near a bell curve; without a logarithm, whose last digit hangs on the machine."""
    return 1 + sum(rng.randrange(-1000, 1001) for _ in range(4)) * ppm / 1.15e9


def figures(name: str, truth: Truth, runs: int, *, time_ppm: int = 8_000, memory_ppm: int = 2_000, base_ns: int = BASE_NS, null_ns: int = NULL_NS,
            drift_ppm: int = 0) -> str:
    """Lines for as many runs of each allocator. Weather is common to the runs of the same number."""
    rng = Random(name)
    text = descriptions(["null", *truth])
    text += line("*", "timed", "*", call_ticks=200, touch_ticks=80, tick_spread=60) + line("null", "timed", "*", call_ticks=90, touch_ticks=60)
    text += line("*", "account", "*", knows_usable=1, second=curve(0, MB, 2 * MB, MB), rss=curve(0, MB / 2, MB, MB / 2), peak_live=18 * MB,
                 peak_usable=19 * MB, end_live=4 * MB, end_usable=5 * MB, filter_refusal=1, **{"class": ["16:300:18000000:19000000", "5:10:300:320"]})
    for number in range(runs):
        weather = noise(rng, 20_000)
        null_now = int(null_ns * weather)
        text += line("null", "flat", number, cpu_ns=null_now, wall_ns=null_now + MS, minor_faults=300, counter=["0:5000000:0:0", "6:2:0:0"])
        text += line("null", "memory", number, rss=curve(*[NULL_RSS + 4096 * rng.randrange(3)] * 2), rss_end=NULL_RSS, wall_ns=MS)
        for who, (time, peak) in truth.items():
            cpu = int((null_ns + base_ns * time * noise(rng, time_ppm) * (1 + drift_ppm * number / 1e6)) * weather)
            most = PEAK_BYTES * peak * noise(rng, memory_ppm)
            end = most * (0.2 + 0.05 * peak)
            text += line(who, "flat", number, cpu_ns=cpu, wall_ns=cpu + 2 * MS, wait_ns=0, minor_faults=int(5000 * peak),
                         counter=[f"0:{cpu * 3}:0:0", f"1:{cpu * 4}:0:0", "2:0:0:13", "6:3:0:0", "7:1:0:0"])
            text += line(who, "memory", number, rss=curve(*(NULL_RSS + most * way / 4 for way in (0, 1, 2, 3, 4, 3, 2)), NULL_RSS + end),
                         high=curve(0), rss_end=int(NULL_RSS + end), rss_start=NULL_RSS, wall_ns=3 * MS, minor_faults=100,
                         after_free=int(NULL_RSS + end / 2), after_purge=NULL_RSS)
    return text


ASKED = (("compare", RESULTS), ("compare", "--json", RESULTS), ("report", "-q", RESULTS, "-o", "p.html"))


def replay(truth: Truth, *words: str, rounds: int | str = 3, keep: bool = True) -> tuple[str, ...]:
    kept = ("-o", RESULTS) if keep else ()
    which = words[words.index("--pass") + 1] if "--pass" in words else "none" if "--snapshots" in words else "both"
    kept += ("--rounds", str(rounds)) if which in ("time", "memory", "both") else ()
    kept += ("--points", "10") if which in ("memory", "both") else ()
    kept += ("--thp", "never") if which != "count" else ()
    return ("replay", "--seed", "7", "--alloc", ",".join(truth), *words, *kept, "t.bin")


def measured(name: str, truth: Truth, *words: str, rounds: int | str = 3, runs: int | None = None, made: bytes | None = None, more: str = "",
             asked: tuple[tuple[str, ...], ...] = (), json_too: bool = True, environment: dict[str, str] | None = None, **of_figures: Any) -> Scenario:
    """Asked as text with results, then as JSON, then what is asked of the results."""
    count = runs or (2 * rounds + 2 if isinstance(rounds, int) else 60)
    commands = [replay(truth, *words, rounds=rounds)]
    if json_too:
        commands.append(replay(truth, "-q", "--json", *words, rounds=rounds, keep=False))
    return Scenario(name, (*commands, *asked), figures(name, truth, count, **of_figures) + more, made or trace(), environment=environment or {})


# --- families

def of_rounds() -> Iterator[Scenario]:
    """Number of rounds, passes, noise, number of allocators."""
    for rounds in (1, 2, 3, 4, 5, 6, 7, 12, 19):
        yield measured(f"time of {rounds} rounds", TWO, "--pass", "time", rounds=rounds, asked=ASKED)
        yield measured(f"memory of {rounds} rounds", TWO, "--pass", "memory", rounds=rounds, asked=ASKED)
    for rounds in (1, 3, 6, 8):
        for ppm in (0, 3_000, 40_000):
            yield measured(f"both of {rounds} rounds, noise {ppm}", THREE, rounds=rounds, time_ppm=ppm, memory_ppm=ppm // 3, asked=ASKED[:rounds % 3 + 1])
    yield measured("a hundred rounds of time", TWO, "--pass", "time", rounds=100, time_ppm=30_000, asked=ASKED[:1], json_too=False)
    yield measured("a hundred rounds of memory", TWO, "--pass", "memory", rounds=100, memory_ppm=30_000, asked=ASKED[1:2], json_too=False)
    yield measured("one allocator", {"glibc": (1, 1)}, asked=ASKED)
    yield measured("one allocator, one round", {"jemalloc": (1, 1)}, rounds=1, asked=ASKED)
    yield measured("eight allocators", EIGHT, asked=ASKED)
    yield measured("eight allocators, 7 rounds of memory", EIGHT, "--pass", "memory", rounds=7, asked=ASKED)
    yield measured("eight allocators, no noise", EIGHT, rounds=2, time_ppm=0, memory_ppm=0, asked=ASKED)
    yield measured("the null replayer alone", {"null": (1, 1)}, rounds=2, asked=ASKED[:1])
    yield measured("drift", THREE, "--pass", "time", rounds=9, drift_ppm=20_000, asked=ASKED)
    yield measured("quiet", TWO, "-q", asked=ASKED[:1], json_too=False)
    yield measured("verbose", THREE, "-v", rounds=6, asked=ASKED, json_too=False)
    yield measured("verbose, time", TWO, "-v", "--pass", "time", rounds=2, json_too=False)
    yield measured("verbose, memory", TWO, "-v", "--pass", "memory", rounds=8, json_too=False)


TIES: dict[str, Truth] = {
    "two faster": {"glibc": (1, 1), "jemalloc": (0.7, 1), "mimalloc": (0.7, 1)},
    "all the same": {"glibc": (1, 1), "jemalloc": (1, 1), "mimalloc": (1, 1)},
    "same within 1 %": {"glibc": (1, 1), "jemalloc": (1.004, 0.996), "mimalloc": (0.995, 1.004)},
    "all slower": {"glibc": (1, 1), "jemalloc": (1.3, 1.3), "mimalloc": (1.5, 1.1)},
    "just beyond 1 %": {"glibc": (1, 1), "jemalloc": (1.012, 1.011), "mimalloc": (0.988, 0.989)},
    "time of nothing": {"glibc": (1, 1), "jemalloc": (0, 0)},
    "less than the null replayer": {"glibc": (1, 1), "jemalloc": (-0.05, 1)},
    "more than a thousand": {"glibc": (1, 1), "jemalloc": (1.0005, 1.0005)},
    "the baseline takes nothing": {"glibc": (0, 0), "jemalloc": (1, 1)},
}


def of_ties() -> Iterator[Scenario]:
    for title, truth in TIES.items():
        for rounds, ppm in ((3, 10_000), (6, 0), (7, 4_000)):
            yield measured(f"{title}, {rounds} rounds, noise {ppm}", truth, rounds=rounds, time_ppm=ppm, memory_ppm=ppm, asked=ASKED[:2 if ppm else 3])
    for seed in range(8):
        rng = Random(f"near {seed}")
        truth = {"glibc": (1.0, 1.0)} | {name: (0.97 + rng.randrange(60) / 1000, 0.97 + rng.randrange(60) / 1000) for name in ("jemalloc", "tcmalloc")}
        yield measured(f"near one, {seed}", truth, rounds=5 + seed, time_ppm=12_000, memory_ppm=5_000, asked=ASKED[seed % 3:seed % 3 + 1])
    for baseline in ("jemalloc", "mimalloc"):
        yield measured(f"the baseline is {baseline}", THREE, "--baseline", baseline, rounds=6,
                       asked=tuple((*words, "--baseline", baseline) for words in ASKED))
    yield measured("no glibc", {"mimalloc": (1, 1), "jemalloc": (0.8, 1.2)}, asked=ASKED)
    yield measured("recorded under mimalloc", THREE, rounds=6, made=trace(c_allocator_name="mimalloc", c_allocator_version="2.1.2"), asked=ASKED)


def of_open_rounds() -> Iterator[Scenario]:
    """--rounds auto: until all is resolved, or the budget is spent, after three rounds at least."""
    for title, truth, ppm in (("clear", THREE, 1_000), ("never clear", TIES["more than a thousand"], 4_000), ("all the same", TIES["all the same"], 1_000),
                              ("near", TIES["just beyond 1 %"], 6_000)):
        yield measured(f"until resolved: {title}", truth, "--budget", "1ms", rounds="auto", time_ppm=ppm, memory_ppm=ppm, asked=ASKED[:1])
    yield measured("resolved after 8 rounds", THREE, "--budget", "1h", rounds="auto", time_ppm=1_000, memory_ppm=1_000, asked=ASKED[:2])
    # Noise that fades is resolved at a later analysis.
    fading = "".join(line("jemalloc", "memory", number, rss=curve(NULL_RSS, (20 if number % 2 else 30) * MB, 2 * MB)) for number in range(5))
    yield measured("time resolved before memory", TWO, "--budget", "1h", rounds="auto", time_ppm=1_000, memory_ppm=1_000, more=fading, asked=ASKED)
    fading = "".join(line("jemalloc", "flat", number, cpu_ns=(15 if number % 2 else 25) * MS) for number in range(6))
    yield measured("memory resolved before time", TWO, "--budget", "1h", rounds="auto", time_ppm=1_000, memory_ppm=1_000, more=fading, asked=ASKED)
    fading = "".join(line("jemalloc", "memory", number, rss=curve(NULL_RSS, 30 * MB, (number % 2) * 20 * MB)) for number in range(5))
    yield measured("a condition keeps rounds coming", TWO, "--budget", "1h", "--fail-if", "rss_mean>1.1", rounds="auto", time_ppm=1_000, memory_ppm=1_000, more=fading)
    fading = "".join(line("jemalloc", "flat", number, cpu_ns=(15 if number % 2 else 25) * MS) for number in range(60))
    yield measured("a gate that leaves time alone", TWO, "--budget", "1h", "--fail-if", "rss_peak>1.05", rounds="auto", time_ppm=1_000, memory_ppm=1_000, more=fading)


def of_conditions() -> Iterator[Scenario]:
    """Each figure with each operator: it holds, is refuted, or stays undecided."""
    for number, figure in enumerate(FIGURES):
        for index, operator in enumerate((">", ">=", "<", "<=")):
            limit = (0.5, 0.9, 1.1, 1.5)[(number + index) % 4]
            condition = ("--fail-if", f"{figure}{operator}{limit}")
            yield measured(f"condition {figure}{operator}{limit}", THREE, *condition, rounds=3 + index, time_ppm=15_000, memory_ppm=9_000,
                           asked=(("compare", RESULTS, *condition), ("compare", "--json", RESULTS, *condition)))
    for title, rounds, conditions in (
            ("undecided", 3, ("time>0.8",)), ("undecided by one round", 1, ("time>0.8", "rss_peak<2")), ("one holds, one is undecided", 3, ("time<0.9", "rss_end>1.1")),
            ("all refuted", 4, ("time>2", "rss_peak>2", "rss_end<0.1")), ("on the limit", 3, ("rss_peak>=1", "rss_peak<=1", "time>1", "time<1")),
            ("eight of them", 6, ("time>1.01", "time<0.7", "rss_peak>1.2", "rss_peak<0.9", "rss_mean>1", "rss_end>1", "process_rss_peak>1.1", "time>=0.72"))):
        words = tuple(word for condition in conditions for word in ("--fail-if", condition))
        exact = title == "on the limit"
        yield measured(f"conditions: {title}", TIES["all the same"] if exact else THREE, *words, rounds=rounds, time_ppm=0 if exact else 20_000,
                       memory_ppm=0 if exact else 20_000, asked=(("compare", RESULTS, *words), ("compare", "--json", RESULTS, *words)))
    for title, truth, words in (
            ("without the time pass", TWO, ("--pass", "memory", "--fail-if", "time>1")), ("without the memory pass", TWO, ("--pass", "time", "--fail-if", "rss_end>1")),
            ("without counts", TWO, ("--fail-if", "instructions>1")), ("of one allocator", {"glibc": (1, 1)}, ("--fail-if", "time>1")),
            ("of a figure that there is not", TWO, ("--fail-if", "tine>1")), ("without a number", TWO, ("--fail-if", "time>")),
            ("of another baseline", TWO, ("--baseline", "mimalloc")), ("in the results of one pass", TWO, ("--pass", "time"))):
        yield measured(f"a condition {title}", truth, *words, asked=(("compare", RESULTS, "--fail-if", "rss_peak>1"), ("compare", RESULTS, "--fail-if", "tine>1")))
    yield measured("a process is not known", TWO, "--fail-if", "process_rss_peak>1", made=trace(samples=False), asked=(("compare", RESULTS, "--fail-if", "process_rss_peak>1"),))


def of_failures() -> Iterator[Scenario]:
    """Runs that fail, in every way and of everybody."""
    for title, more in {
            "once": line("jemalloc", "flat", 2, signal=11), "once in memory": line("jemalloc", "memory", 1, signal=6), "ended": line("mimalloc", "flat", 3, status=3),
            "twice in a row": line("jemalloc", "flat", "*", signal=9), "all of memory": line("mimalloc", "memory", "*", status=1),
            "its calls": line("jemalloc", "flat", 1, failures=3, first_failure="malloc(5) = NULL"), "too few operations": line("jemalloc", "flat", 2, operations=5),
            "too few samples": line("mimalloc", "memory", 0, samples_taken=1), "in the timed pass": line("jemalloc", "timed", 1, signal=11),
            "refused": line("jemalloc", "describe", "*", refuses=1, message="malloc is from libc.so.6, not from libjemalloc.so.2"),
            "the null replayer once": line("null", "flat", 2, signal=11), "the null replayer in memory": line("null", "memory", 1, status=1),
            "the null replayer always": line("null", "flat", "*", signal=11), "the null replayer is refused": line("null", "describe", "*", refuses=1, message="no"),
            "the baseline once": line("glibc", "flat", 3, signal=11), "the baseline's memory": line("glibc", "memory", "*", signal=11),
            "the baseline is refused": line("glibc", "describe", "*", refuses=1, message="its C library is another"),
            "all": line("*", "flat", "*", signal=11), "all are refused": line("*", "describe", "*", refuses=1, message="nothing works here"),
            "nonsense": line("jemalloc", "flat", 1, cpu_ns=1 << 62), "accounts": line("*", "account", "*", signal=11), "the warm-up": line("jemalloc", "flat", 0, signal=11),
    }.items():
        yield measured(f"failed: {title}", THREE, rounds=4, more=more, asked=(ASKED[0], ASKED[2], ("compare", RESULTS, "--fail-if", "time>1.5")))
    yield measured("failed with conditions", THREE, "--fail-if", "time>0.5", more=line("jemalloc", "flat", 2, signal=11), asked=ASKED[:2])
    yield measured("nothing is left of a condition", TWO, "--fail-if", "time>0.5", more=line("jemalloc", "flat", "*", signal=11), asked=ASKED[:2])
    yield measured("killed for its time", TWO, "--pass", "time", "--timeout", "4s", rounds=2, more=line("jemalloc", "flat", 2, sleep_ms=30_000), asked=ASKED[:1], json_too=False)
    yield measured("the baseline named is refused", TWO, "--baseline", "glibc", more=line("glibc", "describe", "*", refuses=1, message="no"), asked=ASKED[:1])
    yield measured("outliers", THREE, "-v", rounds=9, time_ppm=1_000, more=line("jemalloc", "flat", 4, cpu_ns=90 * MS) + line("glibc", "memory", 5, rss=curve(90 * MB, 91 * MB)), asked=ASKED)


def part(scale: int, profile: bool = False) -> dict[str, Any]:
    """What the simulation leaves of one allocator."""
    keys = ("instructions", "l1d_misses", "l2_misses", "l2_sequential_misses", "l1i_misses", "l2_code_misses", "dtlb_misses", "stlb_misses",
            "branch_misses", "faults", "mapping_calls", "far_4mib_misses", "far_8mib_misses", "far_16mib_misses", "far_32mib_misses")
    counts = [100_000 * scale, 900 * scale, 300 * scale, 50, 40 * scale, 7, 60 * scale, 20, 500, 90 * scale, 3 * scale, 100, 50, 20, 10]
    made: dict[str, Any] = {"instructions": 150_000 * scale, "allocator": dict(zip(keys, counts, strict=True)),
                            "program": dict(zip(keys, (count // 10 for count in counts), strict=True)),
                            "calls": {"malloc": 300, "free": 225}, "blocks": [{"size_low": 57344, "accesses": 9, "l1d_misses": 8 * scale, "l2_misses": 2}],
                            "calls_by_size": [{"function": "malloc", "size_low": 57344, "calls": 300, "instructions": 60_000 * scale},
                                              {"function": "free", "size_low": 57344, "calls": 225, "instructions": 40_000 * scale}]}
    if profile:
        made["profile"] = {"samples": 100, "stacks": [{"frames": ["malloc", "arena_get", "arena_get"], "samples": 60}, {"frames": ["free"], "samples": 39 },
                                                      {"frames": ["malloc"], "samples": 1}]}
    return made


def of_counts() -> Iterator[Scenario]:
    """--pass count and --instructions, by a simulation that gives the counts of the script."""
    counted = {"null": part(1), "glibc": part(10), "jemalloc": part(8, True), "mimalloc": part(12)}
    asked = (("compare", RESULTS), ("compare", "--json", RESULTS), ("report", "-q", RESULTS, "-o", "p.html"))
    def scenario(name: str, *words: str, truth: Truth = THREE, counts: dict[str, Any] | None = None, commands: tuple[tuple[str, ...], ...] = (), more: str = "",
                 results: bool = True) -> Scenario:
        made = (replay(truth, *words, rounds=3), replay(truth, "--json", *words, rounds=3, keep=False))
        return Scenario(f"counts: {name}", (*made, *(asked if results else ()), *commands), figures(name, truth, 9) + more, trace(),
                        counts=counted if counts is None else counts)
    yield scenario("caches", "--pass", "count")
    yield scenario("instructions alone", "--pass", "count", "--instructions")
    yield scenario("beside times", "--instructions")
    yield scenario("beside memory", "--instructions", "--pass", "memory")
    yield scenario("profile", "--profile", "--pass", "count", "--instructions")
    yield scenario("profile beside times", "--profile", "--pass", "time")
    yield scenario("none of one", "--pass", "count", counts={name: counts for name, counts in counted.items() if name != "jemalloc"})
    yield scenario("none of any", "--pass", "count", counts={}, results=False)
    yield scenario("none of one beside times", "--instructions", counts={name: counts for name, counts in counted.items() if name != "glibc"})
    yield scenario("one aborts under simulation", "--pass", "count", "--instructions", truth={"glibc": (1, 1), "snmalloc": (1, 1)})
    for number, condition in enumerate(("instructions>1.1", "instructions<1", "instructions[malloc]>1", "instructions[free:60000]>=1.2", "instructions[:60000]<0.9",
                                        "instructions[calloc]>1", "mapping_calls>1")):
        words = ("--fail-if", condition)
        yield scenario(f"condition {condition}", "--pass", "count", "--instructions", *words, results=number == 0)
        yield scenario(f"condition {condition} beside times", "--instructions", "--pass", "time", *words, results=False)
    for condition in ("faults>1", "l1d_misses>1.1", "l2_misses<1", "l1i_misses>=1.2", "dtlb_misses>1", "stlb_misses>1", "branch_misses<=1"):
        yield scenario(f"condition {condition}", "--pass", "count", "--fail-if", condition, results=False)
    yield scenario("a condition of misses without them", "--pass", "count", "--instructions", "--fail-if", "faults>1", results=False)
    yield scenario("a condition and a failed count", "--pass", "count", "--fail-if", "instructions>1", counts={"null": part(1), "glibc": part(2)}, results=False)


def of_baselines() -> Iterator[Scenario]:
    """--write-baseline, and --baseline-file with what became of the file."""
    counted = {"null": part(1), "glibc": part(10), "jemalloc": part(8), "mimalloc": part(12)}
    edits: dict[str, tuple[tuple[str, ...], ...]] = {
        "the same": (), "less memory then": (("set", "b.json", "allocators.jemalloc.rss_peak_bytes", "[20000000, 20100000, 19900000, 20050000]"),),
        "fewer instructions then": (("set", "b.json", "allocators.jemalloc.counts.allocator.instructions", "700000"),),
        "one round then": (("set", "b.json", "allocators.jemalloc.rss_end_bytes", "[9000000]"),), "another trace": (("set", "b.json", "trace.sha256", '"ab"'),),
        "other settings": (("set", "b.json", "settings.touch", '"none"'),), "another mode of huge pages": (("set", "b.json", "machine.thp", '"always"'),),
        "another format": (("set", "b.json", "format", '"x"'),), "another version": (("set", "b.json", "version", "2"),), "no list": (("set", "b.json", "allocators.jemalloc.rss_peak_bytes", "5"),),
        "a text in a list": (("set", "b.json", "allocators.jemalloc.rss_peak_bytes", '["x"]'),), "rounds far apart": (("set", "b.json", "allocators.jemalloc.rss_peak_bytes", "[1, 20000000]"),),
        "nothing of the condition": (("set", "b.json", "allocators.jemalloc.rss_peak_bytes", "[]"),), "a count below 0": (("set", "b.json", "allocators.jemalloc.counts.allocator.faults", "-5"),),
        "an allocator is missing": (("set", "b.json", "allocators.jemalloc", ""), ("set", "b.json", "allocators.mimalloc", "")), "no allocators": (("set", "b.json", "allocators", "5"),),
    }
    for title, edit in edits.items():
        words = ("--pass", "memory", "--instructions")
        against = ("--baseline-file", "b.json", "--fail-if", "rss_peak>1.05", "--fail-if", "instructions>1.05")
        pair: Truth = {"jemalloc": (1, 1), "mimalloc": (1, 1.1)}
        commands = (replay(pair, *words, "--write-baseline", "b.json", rounds=4, keep=False), *edit, replay(pair, *words, *against, rounds=3),
                    replay(pair, *words, *against, "--json", rounds=1, keep=False))
        yield Scenario(f"baseline file: {title}", commands, figures(title, pair, 12), trace(), counts=counted)
    commands = (replay(TWO, "--pass", "count", "--write-baseline", "b.json", keep=False), replay(TWO, "--pass", "count", "--baseline-file", "b.json", "--fail-if", "faults>1.2", keep=False),
                replay(TWO, "--pass", "count", "--baseline-file", "b.json", "--fail-if", "l2_misses>0.5", "--json", keep=False))
    yield Scenario("baseline file: counts alone", commands, figures("counts alone", TWO, 9), trace(), counts=counted)
    one: Truth = {"jemalloc": (1, 1)}
    commands = (replay(one, "--pass", "memory", "--write-baseline", "b.json", keep=False), replay({"mimalloc": (1, 1)}, "--pass", "memory", "--baseline-file", "b.json", keep=False),
                replay(one, "--baseline-file", "b.json", "--fail-if", "time>1", keep=False), replay(one, "--pass", "memory", "--baseline-file", "n.json", keep=False))
    yield Scenario("baseline file: of one for another", commands, figures("one for another", one | {"mimalloc": (1, 1.2)}, 9), trace())


def of_recorded() -> Iterator[Scenario]:
    """What is known of the recorded program, and what the replay under its allocator is held against."""
    made: dict[str, bytes] = {
        "as recorded": trace(held=1.4), "too little": trace(held=3.0), "too much": trace(held=0.4), "nothing recorded": trace(samples=False),
        "lost calls": trace(held=3.0, lost_calls=3, anomalies=2, repairs=9, foreign_frees=1), "another version": trace(held=3.0, c_allocator_version="2.31"),
        "another mode of huge pages": trace(held=3.0, c_thp="always [madvise] never"), "settings": trace(held=3.0, c_env__MALLOC_ARENA_MAX="2", c_env__MALLOC_TOP_PAD_="odd"),
        "several threads": trace(held=3.0, threads=3), "mostly unseen": trace(own=200 * MB), "inherited": trace(held=3.0, odd="inherited"),
        "forked": trace(odd="inherited", c_parent_pid=3, forked=True), "sliced": trace(held=3.0, odd="inherited", c_sliced_from={"events": 9}),
        "linked": trace(c_linked_allocator="glibc", c_executable="/usr/bin/job"), "linked, another version": trace(c_linked_allocator="mimalloc", c_allocator_version="1.7"),
        "its own allocator": trace(c_allocator_name="scribble", c_allocator_version="0.1"), "an inner allocator": trace(c_inner_allocators="libpython has its own"),
        "extended": trace(c_extended={"from_ns": 1000, "until_ns": 9_000_000, "to_ns": 10_000_000, "grows": True, "live_to_bytes": 9e6, "live_slope_bytes_per_hour": 1e9}),
        "damaged": trace(held=3.0, damage="a chunk is missing"), "zeroed by calloc": trace(odd="zeroed"), "no command": trace(c_command=None, c_allocator_name=None, c_allocator_version=None),
        "a long command": trace(c_command="job " + "é" * 90), "many calls": trace(6000, block_bytes=3000), "a mode of huge pages": trace(c_thp="[always] madvise never"),
        "used heap": trace(), "functions": trace(odd="functions"), "queries": trace(odd="queries"), "control calls": trace(odd="controls"),
    }
    for title, file in made.items():
        truth = {"glibc": (1.0, 1.0), "mimalloc": (0.9, 1.1)}
        words = ("--age", "0.5") if title == "used heap" else ()
        yield measured(f"recorded: {title}", truth, *words, rounds=2, made=file, asked=(*ASKED[:2], ("report", "-q", RESULTS, "-o", "p.html", "--trace", "t.bin")))


def of_warnings() -> Iterator[Scenario]:
    def far(name: str, which: str, **keys: Any) -> str:
        return line(name, which, "*", **keys)
    plain: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
        "a short run": (("--pass", "time"), "", {"base_ns": 300_000, "null_ns": 20_000}), "repeats": (("--pass", "time"), "", {"base_ns": 20_000, "null_ns": 3_000}),
        "repeats asked for": (("--pass", "time", "--repeats", "3"), "", {}), "no repeats": (("--pass", "time", "--repeats", "3", "--pace", "x1000"), "", {}),
        "dropped": (("--pass", "time"), far("*", "timed", dropped_one_in=3), {}), "the harness prevails": (("--pass", "time"), "", {"base_ns": 3 * MS, "null_ns": 9 * MS}),
        "a reader of the cycle counter": ((), far("jemalloc", "memory", cycle_counter_watched=1, cycle_counter_reader="libjemalloc.so"), {}),
        "a known fault": ((), far("jemalloc", "flat", known_failures=4), {}), "no queries": ((), far("jemalloc", "describe", skips_queries=1), {"made": trace(odd="queries")}),
        "no libstdc++": ((), far("jemalloc", "describe", lacks_operators=1), {}), "unwatched": (("--pass", "memory"), far("*", "memory", watched=0, watch_refusal=1), {}),
        "unwatched, blocked": (("--pass", "memory"), far("jemalloc", "memory", watched=0, watch_refusal=16), {}), "unwatched, a thread": (("--pass", "memory"), far("jemalloc", "memory", watched=0), {}),
        "within a call": (("--pass", "memory"), far("mimalloc", "memory", high=curve(0, 0, 60 * MB, 0)), {}), "the control differs": (("--pass", "time"), "".join(
            line("glibc", "flat", number, cpu_ns=(22 if number % 2 else 30) * MS) for number in range(20)), {"rounds": 7}),
        "a wrapper": (("--wrap", "env"), "", {}), "scale": (("--scale", "3"), "", {}), "processors": (("--cpus", "4"), far("jemalloc", "memory", processors_asked=1), {}),
        "pollution": (("--pollute", "data=64,code=8,tlb=16"), "", {}), "touch none": (("--touch", "none"), "", {}), "one thread": (("--threads", "1"), "", {"made": trace(threads=3)}),
        "fixed layout": (("--layout", "fixed"), "", {}), "purges": (("--purge", "1ms"), "", {}), "refused calls": ((), far("jemalloc", "describe", refused=7), {"made": trace(odd="functions")}),
        "refused by the baseline, too": ((), far("glibc", "describe", refused=7), {"made": trace(odd="functions")}), "swapped and lazily freed": (("--pass", "memory", "-v"), far(
            "jemalloc", "memory", resident=["2:9000000:1000:2097152:4096"], swap_end=9 * MB, lazyfree_end=3 * MB, huge_end=4 * MB, rss_kernel_end=9 * MB), {}),
        "no usable sizes": ((), far("jemalloc", "account", knows_usable=0), {}), "statistics": (("-v",), far("jemalloc", "account", reported=["allocated", "mapped"], report=[
            "2:9000000:9500000:9600000:12000000", "5:17000000:17500000:18000000:24000000"]), {}), "background threads": ((), far("jemalloc", "*", background_threads=2, background_cpu_ns=4 * MS), {}),
        "knobs": ((), far("jemalloc", "describe", knob=["0:true"]), {}), "waiting threads": (("-v", "--pass", "time"), far("*", "flat", wait_ns=3 * MS), {"made": trace(threads=3)}),
        "counters refused": (("-v", "--pass", "time"), far("*", "flat", counter=[f"{number}:0:0:13" for number in range(8)]), {}),
        "counters without the kernel": (("-v", "--pass", "time"), far("*", "flat", counter=[f"{number}:7000000:1:0" for number in range(8)]), {}),
    }
    for title, (words, more, options) in plain.items():
        yield measured(f"warned: {title}", THREE, *words, more=more, asked=ASKED[:1] if len(title) % 2 else ASKED[1:], **({"rounds": 3} | options))


def of_other_passes() -> Iterator[Scenario]:
    """--verify, --memory-max, --snapshots."""
    sound = line("*", "verify", "*", blocks_checked=900, blocks_by="300:0:0:0", largest_bytes=60_000, largest_alignment=16)
    found = line("jemalloc", "verify", "*", found=[f"{kind}:0:{40 + 9 * kind}:{5 + kind}:60000:100:7:9" for kind in range(7)])
    for title, words, more in (
            ("sound", ("--pass", "verify"), sound), ("seven violations", ("--pass", "verify"), sound + found), ("violations, verbose", ("--pass", "verify", "-v"), sound + found),
            ("violations before a comparison", ("--verify",), sound + found), ("a known fault", ("--pass", "verify"), sound + line("jemalloc", "verify", "*", known_violations=3)),
            ("a crash", ("--pass", "verify"), sound + line("jemalloc", "verify", "*", signal=11)), ("quiet", ("--pass", "verify", "-q"), sound),
            ("no usable size", ("--pass", "verify"), sound + line("mimalloc", "verify", "*", usable_unknown=1))):
        yield measured(f"verified: {title}", THREE, *words, more=more, asked=ASKED[:1] if title != "quiet" else (), json_too=False)
    for title, words in (("all live", ("--memory-max", "512M", "--pass", "limit")), ("some die", ("--memory-max", "27M", "--pass", "limit")), ("none lives", ("--memory-max", "2M", "--pass", "limit")),
                         ("search", ("--memory-max", "search", "--pass", "limit")), ("before a comparison", ("--memory-max", "27M")), ("search before memory", ("--memory-max", "search", "--pass", "memory"))):
        yield measured(f"limit: {title}", THREE, *words, runs=100, asked=ASKED)
    yield measured("limit: one fails", THREE, "--memory-max", "27M", "--pass", "limit", more=line("jemalloc", "memory", "*", signal=11), asked=ASKED[:1])
    yield measured("limit: nothing recorded of the program's own", TWO, "--memory-max", "27M", "--pass", "limit", made=trace(samples=False), asked=ASKED[:1])
    for title, more in (("taken", ""), ("one fails", line("jemalloc", "snapshot", "*", signal=11)), ("no pages", line("mimalloc", "snapshot", "*", snapshot_problem=1))):
        yield Scenario(f"snapshots: {title}", (replay(THREE, "--snapshots", ".", "--at", "peak,end,3ms", rounds=1, keep=False),), figures(title, THREE, 40) + more, trace())


# --- results that are no longer what replay wrote

Rows = list[dict[str, Any]]
# Keys that lines of earlier versions lack, by what brought them.
LATER = {
    "the process": ("process_rss_peak_bytes", "process_rss_end_bytes"), "peaks within calls": ("watched", "rss_between_calls_peak_bytes"), "baseline_check": ("baseline_check",),
    "leftovers": ("rss_after_free_bytes", "rss_after_purge_bytes", "purge_call"), "scale": ("scale",), "arenas": ("arenas", "arenas_max"), "decomposition": ("decomposition",),
    "latencies": ("latency_ns",), "the curve": ("timeline",), "verification": ("violations", "violation_kinds", "violations_told"), "repeats": ("repeats",), "touching": ("touch", "touch_free"),
    "control calls": ("control_calls",), "huge pages": ("thp",), "counters": ("perf",), "controls": ("control",), "failures": ("failures", "problem"), "machine": ("machine",), "calls": ("calls",),
}


def without(keys: tuple[str, ...]) -> Callable[[Rows, Random], Rows]:
    return lambda rows, _: [{key: value for key, value in row.items() if key not in keys} for row in rows]


def with_keys(where: Callable[[dict[str, Any]], bool], **keys: Any) -> Callable[[Rows, Random], Rows]:
    return lambda rows, _: [row | keys if where(row) else row for row in rows]


def some_null(rows: Rows, rng: Random) -> Rows:
    """Figures alone: another setting would be another experiment."""
    known = [key for key in sorted(rows[0]) if key.endswith(("_ns", "_bytes", "_faults")) or key in ("calls", "timeline", "fragmentation", "machine")]
    for row in rng.sample(rows, len(rows) // 3):
        for key in rng.sample([key for key in known if key not in ("purge_ns", "pollution_bytes", "pollution_code_bytes", "aged_kept_bytes")], 6):
            row[key] = None
    return rows


def text_of(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


CHANGES: dict[str, Callable[[Rows, Random], Rows | bytes]] = {
    "half a last line": lambda rows, _: text_of(rows)[:-200], "half a line between": lambda rows, _: text_of(rows[:4])[:-100] + b"\n" + text_of(rows[4:]),
    "no line": lambda rows, _: b"", "only half a line": lambda rows, _: text_of(rows[:1])[:50], "no JSON": lambda rows, _: b"allocator,time\n", "zeros": lambda rows, _: bytes(500),
    "no UTF-8": lambda rows, _: text_of(rows).replace(b"glibc", b"gl\xffbc"), "a list": lambda rows, _: text_of(rows) + b"[]\n", "twice": lambda rows, _: text_of(rows + rows),
    "shuffled": lambda rows, rng: rng.sample(rows, len(rows)), "one round of many": lambda rows, _: [row for row in rows if row["round"] == 0],
    "no control": lambda rows, _: [row for row in rows if not row["control"]], "the control alone": lambda rows, _: [row for row in rows if row["control"] or row["allocator"]["name"] != "glibc"],
    "no baseline": lambda rows, _: [row for row in rows if row["allocator"]["name"] != "glibc"], "no null replayer": lambda rows, _: [row for row in rows if row["allocator"]["name"] != "null"],
    "the null replayer alone": lambda rows, _: [row for row in rows if row["allocator"]["name"] == "null"], "no time": lambda rows, _: [row for row in rows if row["pass"] != "time"],
    "every third missing": lambda rows, _: [row for number, row in enumerate(rows) if number % 3], "some null": some_null,
    "times of 0": with_keys(lambda row: row["allocator"]["name"] == "jemalloc" and row["round"] % 2 == 0, alloc_time_ns=0),
    "times below 0": with_keys(lambda row: row["allocator"]["name"] == "jemalloc" and row["round"] < 2, alloc_time_ns=-500),
    "a peak of 0": with_keys(lambda row: row["allocator"]["name"] == "mimalloc" and row["pass"] == "memory", rss_peak_bytes=0),
    "no peak": with_keys(lambda row: row["allocator"]["name"] == "mimalloc" and row["pass"] == "memory", rss_peak_bytes=None),
    "failures": with_keys(lambda row: row["allocator"]["name"] == "jemalloc" and row["round"] < 3, failures=1, problem="killed by SIGSEGV"),
    "a text for a number": with_keys(lambda row: row["round"] == 1, alloc_time_ns="fast"), "another schema": with_keys(lambda row: True, schema=2), "schema 0": with_keys(lambda row: True, schema=0),
    "two seeds": with_keys(lambda row: row["round"] > 2, seed=8), "two settings": with_keys(lambda row: row["round"] > 2, touch="none"), "two machines": with_keys(lambda row: row["round"] > 2, machine={
        "cpu": "Another CPU", "cores": 64, "kernel": "Linux 5.0", "libc": "glibc 2.31", "thp": "always", "load": 70.0}),
    "two traces": lambda rows, _: [row | {"trace": row["trace"] | {"path": "u.bin", "sha256": "cd"}} if row["round"] > 2 else row for row in rows],
    "two builds": lambda rows, _: [row | {"allocator": row["allocator"] | {"build_id": "ff"}} if row["round"] > 2 else row for row in rows],
    "sixteen settings": with_keys(lambda row: True, touch="pages", touch_free="read", pace="x10", threads="1", scale=4, processors=8, purge_ns=10**9, pollution_bytes=65536, age_occupancy=0.5,
                                  age_multiple=2.0, aged_blocks=500, aged_kept_blocks=250, aged_kept_bytes=9_000_000, wrap="perf stat", layout=3, addresses="fixed"),
    "no round": without(("round",)), "no allocator": without(("allocator",)), "unknown keys": with_keys(lambda row: True, new_figure=5, another={"a": [1]}),
    "only what schema 1 began with": lambda rows, _: [{key: row[key] for key in ("schema", "trace", "allocator", "pass", "round", "seed", "threads", "alloc_time_ns", "rss_peak_bytes")} for row in rows],
} | {f"before {title}": without(keys) for title, keys in LATER.items()}


def of_changes() -> Iterator[Scenario]:
    asked = (("compare", RESULTS), ("compare", "--json", RESULTS), ("compare", "--markdown", RESULTS), ("compare", "--csv", RESULTS),
             ("compare", RESULTS, "--fail-if", "time>0.9", "--fail-if", "rss_peak>1.2"), ("report", "-q", RESULTS, "-o", "p.html"))
    for number, (title, change) in enumerate(CHANGES.items()):
        chosen = (asked[0], asked[1 + number % 4], asked[5])
        yield Scenario(f"changed: {title}", (replay(THREE, "-q", rounds=5 if number % 2 else 7), *chosen), figures("changed", THREE, 18), trace(), change=change)
    for words in (("--to", "bencher"), ("--to", "github-action"), ("--to", "hyperfine")):
        yield Scenario(f"changed: not, {words[1]}", (replay(THREE, "-q", rounds=3), ("compare", RESULTS, *words, "-o", "out.json")), figures("changed", THREE, 18), trace())


def accesses(allocations: int, bursts: int) -> bytes:
    """Without an access, but with all allocations (docs/reference/accesses-format.md)."""
    version = 2 if bursts else 1
    head = b"HTAPEACC" + struct.pack("<IIII", version, version, 7, 3) + b"job"
    calls = b"".join(b"\xc8\x09" + bytes([slot & 127 | 128, slot >> 7]) + b"\x40" for slot in range(1, allocations + 1))
    return head + calls + b"\xc5\xc6\x09" * bursts + b"\xc4\x01\x01\x00"


def of_splices() -> Iterator[Scenario]:
    """The program's own accesses are simulated between its calls: the time of the whole program."""
    for title, bursts, words in (("whole", 0, ()), ("sampled", 9, ()), ("whole, a condition", 0, ("--fail-if", "l2_misses>1.01")), ("cut short", 0, ())):
        counted = {name: part(scale) for name, scale in (("glibc", 10), ("jemalloc", 8), ("mimalloc", 12))}
        for number, counts in enumerate(counted.values()):
            if bursts:
                counts["sampled"] = {"bursts": bursts, "groups": [{"accesses": 5 + group, "allocator": part(1)["allocator"], "program": part(3 + group + group * number)["program"]}
                                                                  for group in range(3)]}
        file = accesses(300, bursts)
        commands = (replay(THREE, "--pass", "count", "--splice", "job.acc", *words), replay(THREE, "--pass", "count", "--splice", "job.acc", "--json", *words, keep=False))
        asked = ASKED if title != "cut short" else ASKED[:1]
        yield Scenario(f"spliced: {title}", (*commands, *asked), figures(title, THREE, 3), trace(), counts=counted, files={"job.acc": file[:-9] if title == "cut short" else file})


def of_files() -> Iterator[Scenario]:
    """Files that are there before replay."""
    for title, content in (("half a line", b'{"schema":1,"tr'), ("no results", b"allocator,time\n"), ("nothing", b"")):
        yield Scenario(f"files: results after {title}", (replay(TWO, "--pass", "memory"), *ASKED[:1]), figures(title, TWO, 9), trace(), files={RESULTS: content})
    for title, content in (("text", b"x"), ("half", b'{"format": '), ("nothing", b""), ("a list", b"[]")):
        yield Scenario(f"files: a baseline of {title}", (replay(TWO, "--pass", "memory", "--baseline-file", "b.json", keep=False),), figures(title, TWO, 9), trace(), files={"b.json": content})
    yield Scenario("files: half a trace", (replay(TWO),), figures("half a trace", TWO, 9), trace()[:-400])
    yield Scenario("files: no trace", (replay(TWO),), figures("no trace", TWO, 9))


FAMILIES: dict[str, Callable[[], Iterator[Scenario]]] = {
    "rounds": of_rounds, "ties": of_ties, "open rounds": of_open_rounds, "conditions": of_conditions, "failures": of_failures, "counts": of_counts,
    "baseline files": of_baselines, "recorded": of_recorded, "warnings": of_warnings, "other passes": of_other_passes, "changed results": of_changes, "splices": of_splices, "files": of_files,
}


@cache
def scenarios() -> dict[str, Scenario]:
    made = [scenario for family in FAMILIES.values() for scenario in family()]
    found = {scenario.name: scenario for scenario in made}
    assert len(found) == len(made), "names are unique"
    assert set(ALLOCATORS) >= {name for truth in (THREE, EIGHT) for name in truth}
    return found
