# SPDX-License-Identifier: Apache-2.0
"""heaptape stats: every figure against the same counted by a plain model from what dump prints."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from quick_tier import quick
from dump_lines import Event, events_of
from dump_model import follow
from recorded_traces import NAMES
from tool_runner import Tools, run

BANDS = [16, 64, 256, 1024, 4096, 65536, 1 << 20, None]


@pytest.fixture(scope="module")
def traces(recorded: dict[str, Path]) -> dict[str, Path]:
    return recorded


@pytest.fixture(scope="module", params=quick(set(NAMES) - {"python"}, NAMES))
def case(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]], request: pytest.FixtureRequest) \
        -> tuple[list[Event], dict]:
    trace = traces[request.param]
    done = tools.succeed([tools.heaptape, "stats", "--json", trace])
    return dumped[request.param], json.loads(done.stdout)


def requests_in(events: list[Event]) -> list[Event]:
    return [e for e in events if e.is_call and (e.makes or e.resizes)]


def class_of(value: int) -> tuple[int, int]:
    """The bounds of a value's class, from the documentation: four to a power of two."""
    if value <= 4:
        return value, value
    power = (value - 1).bit_length() - 1
    width = 1 << power - 2
    first = (1 << power) + 1
    below = (value - first) // width
    return first + below * width, first + (below + 1) * width - 1


def quantile(classes: Counter[tuple[int, int]], share: float) -> int:
    below = 0
    for (_, upper), count in sorted(classes.items()):
        below += count
        if below >= share * classes.total():
            return upper
    return 0


def histogram(rows: list[dict]) -> Counter[tuple[int, int]]:
    return Counter({(row["from"], row["to"]): row["count"] for row in rows})


def test_calls(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    calls = [e for e in events if e.is_call]
    assert stats["events"] == len(calls)
    assert 0 <= stats["duration_ns"] - events[-1].time_ns < 32  # as fine as the times of events are
    functions = stats["functions"]
    assert {name: row["calls"] for name, row in functions.items()} == \
        Counter(e.function for e in calls)
    for variant in ("failed", "null", "foreign"):
        assert {name: row[variant] for name, row in functions.items() if row[variant]} == \
            Counter(e.function for e in calls if e.variant == variant)
    asked = requests_in(events)
    by_function: Counter[str] = Counter()
    for event in asked:
        by_function[event.function] += event.size_bytes
    assert {n: row["bytes"] for n, row in functions.items() if row["bytes"]} == +by_function
    assert stats["requests"] == len(asked)
    assert stats["allocations"] == sum(e.makes for e in asked)
    assert stats["allocated_bytes"] == by_function.total()
    assert stats["frees"] == sum(e.ends and e.is_call for e in events)
    assert stats["inherited_objects"] == sum(e.function == "inherit" for e in events)
    callocs = sum(e.function == "calloc" for e in calls)
    assert stats["calloc_share"] == pytest.approx(callocs / stats["allocations"])
    assert stats["largest_request_bytes"] == max(e.size_bytes for e in asked)
    assert stats["zero_sized_requests"] == sum(e.size_bytes == 0 for e in asked)


def test_sizes(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    asked = requests_in(events)
    classes = {(row["from_bytes"], row["to_bytes"]): row for row in stats["size_classes"]}
    requests, size_bytes = Counter(), Counter()
    for event in asked:
        requests[class_of(event.size_bytes)] += 1
        size_bytes[class_of(event.size_bytes)] += event.size_bytes
    assert +Counter({c: row["requests"] for c, row in classes.items()}) == requests
    assert +Counter({c: row["bytes"] for c, row in classes.items()}) == +size_bytes
    _, heap = follow(events)
    at_peak, _ = follow(events[:stats["peak_event"] + 1])
    assert stats["peak_live_bytes"] == heap.peak_bytes == sum(at_peak.values())
    assert stats["peak_time_ns"] == events[stats["peak_event"]].time_ns
    live = Counter(class_of(size) for size in at_peak.values())
    assert +Counter({c: row["live_at_peak"] for c, row in classes.items()}) == live
    assert sum(row["live_at_peak_bytes"] for row in classes.values()) == heap.peak_bytes


def test_hot_sizes(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    sizes = Counter(e.size_bytes for e in requests_in(events))
    by_requests = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:32]
    assert [(r["size"], r["requests"]) for r in stats["hot_sizes"]["by_requests"]] == by_requests
    by_bytes = sorted(sizes.items(), key=lambda item: (-item[0] * item[1], item[0]))[:32]
    assert [(r["size"], r["requests"]) for r in stats["hot_sizes"]["by_bytes"]] == by_bytes
    assert stats["hot_sizes"]["uncounted_requests"] == 0


def test_lifetimes(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    born: dict[int, tuple[Event, int, int]] = {}  # slot: birth, bytes asked for before, size now
    lives: dict[str, dict[int, Counter[tuple[int, int]]]] = \
        {unit: defaultdict(Counter) for unit in ("events", "allocated_bytes", "time_ns")}
    ended: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])  # blocks, bytes
    allocated = short = short_bytes = inherited_ends = 0
    for event in events:
        if event.ends:
            birth, before, size = born.pop(event.slot)
            if event.function == "drop":
                continue
            for i, more in enumerate((1, size)):
                ended[class_of(event.number - birth.number)][i] += more
            if birth.function == "inherit":
                inherited_ends += 1
                continue
            band = next(i for i, upper in enumerate(BANDS) if upper is None or size <= upper)
            lives["events"][band][class_of(event.number - birth.number)] += 1
            lives["allocated_bytes"][band][class_of(allocated - before)] += 1
            lives["time_ns"][band][class_of(event.time_ns - birth.time_ns)] += 1
            short += event.number - birth.number <= 100
            short_bytes += size if event.number - birth.number <= 100 else 0
        elif event.makes:
            born[event.slot] = event, allocated, event.size_bytes
        elif event.resizes:
            born[event.slot] = *born[event.slot][:2], event.size_bytes
        if event.is_call and (event.makes or event.resizes):
            allocated += event.size_bytes
    reported = stats["lifetimes"]
    assert reported["blocks"] == sum(c.total() for c in lives["events"].values())
    assert (reported["short_blocks"], reported["short_bytes"]) == (short, short_bytes)
    assert reported["inherited_blocks_ended"] == inherited_ends
    assert [[row["from_events"], row["to_events"], row["blocks"], row["bytes"]] for row in reported["ended"]] == \
        [[*bounds, *counts] for bounds, counts in sorted(ended.items())]
    assert reported["live_at_end"] == len(born)
    assert reported["live_at_end_bytes"] == sum(size for _, _, size in born.values())
    assert [row["to_bytes"] for row in reported["by_size"]] == BANDS
    for band, row in enumerate(reported["by_size"]):
        for unit, by_band in lives.items():
            assert histogram(row[unit]["histogram"]) == by_band[band], f"band {band}, {unit}"
            for key, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
                assert row[unit][key] == quantile(by_band[band], share)


def test_threads(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    owner: dict[int, int] = {}
    size: dict[int, int] = {}
    frees, freed = Counter(), Counter()
    allocations, allocated = Counter(), Counter()
    for event in events:
        if event.makes:
            owner[event.slot] = event.thread
            if event.is_call:
                allocations[event.thread] += 1
                allocated[event.thread] += event.size_bytes
        if event.makes or event.resizes:
            size[event.slot] = event.size_bytes
        elif event.ends and event.is_call:
            frees[owner[event.slot], event.thread] += 1
            freed[owner[event.slot], event.thread] += size[event.slot]
    reported = stats["threads"]
    names = [row["thread"] for row in reported["rows"]]
    assert reported["count"] == len(names) == len({e.thread for e in events})
    calls = Counter(e.thread for e in events if e.is_call)
    assert [row["calls"] for row in reported["rows"]] == sorted(calls.values(), reverse=True)
    for i, row in enumerate(reported["rows"]):
        assert row["allocations"] == allocations[names[i]]
        assert row["allocated_bytes"] == allocated[names[i]]
        assert reported["frees"][i] == [frees[names[i], by] for by in names]
        assert reported["freed_bytes"][i] == [freed[names[i], by] for by in names]
    crossing = sum(n for (a, b), n in frees.items() if a != b)
    assert reported["cross_frees"] == crossing
    assert reported["cross_freed_bytes"] == sum(n for (a, b), n in freed.items() if a != b)


def ratio_bucket(old: int, new: int, uppers: list[float | None]) -> int:
    ratio = new / old if old else 1e200 if new else 1
    return next(i for i, upper in enumerate(uppers) if upper is None or ratio <= upper)


def test_reallocs(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    reported = stats["reallocs"]
    uppers = [row["to"] for row in reported["ratio"]]
    size: dict[int, int] = {}
    chain: dict[int, tuple[int, int]] = {}  # slot: first size, reallocs
    chains: list[tuple[int, int, int]] = []
    steps: list[tuple[int, int]] = []
    for event in events:
        if event.resizes:
            steps.append((size[event.slot], event.size_bytes))
            first, length = chain.get(event.slot, (size[event.slot], 0))
            chain[event.slot] = first, length + 1
        if event.makes or event.resizes:
            size[event.slot] = event.size_bytes
        elif event.ends and event.slot in chain:
            chains.append((*chain.pop(event.slot), size[event.slot]))
    chains += [(*value, size[slot]) for slot, value in chain.items()]
    assert reported["resized"] == len(steps)
    assert (reported["grown"], reported["shrunk"], reported["same_size"]) == (
        sum(new > old for old, new in steps), sum(new < old for old, new in steps),
        sum(new == old for old, new in steps))
    assert reported["added_bytes"] == sum(max(new - old, 0) for old, new in steps)
    assert reported["kept_bytes"] == sum(min(new, old) for old, new in steps)
    ratios = Counter(ratio_bucket(old, new, uppers) for old, new in steps)
    assert +Counter({i: row["count"] for i, row in enumerate(reported["ratio"])}) == ratios
    assert reported["chains"] == len(chains)
    assert reported["longest_chain"] == max((length for _, length, _ in chains), default=0)
    assert histogram(reported["chain_length"]) == Counter(class_of(length) for _, length, _ in chains)
    growth = Counter(ratio_bucket(first, last, uppers) for first, _, last in chains)
    assert +Counter({i: row["count"] for i, row in enumerate(reported["chain_growth"])}) == growth
    assert reported["from_null"] == sum(e.is_realloc and e.variant == "null" for e in events)


def test_alignments(case: tuple[list[Event], dict]) -> None:
    events, stats = case
    aligned = [e for e in events
               if e.makes and e.extra and not e.is_realloc and e.function != "calloc"]
    reported = stats["alignments"]
    assert reported["calls"] == len(aligned)
    assert reported["bytes"] == sum(e.size for e in aligned)
    assert {row["alignment"]: row["calls"] for row in reported["by_alignment"]} == \
        Counter(e.extra for e in aligned)


def churn_model(events: list[Event], step_ns: int) -> list[dict[str, int]]:
    points: list[dict[str, int]] = []
    live, size = 0, {}
    for event in events:
        while len(points) <= event.time_ns // step_ns:
            points.append({"calls": 0, "requests": 0, "allocated_bytes": 0, "frees": 0,
                           "freed_bytes": 0, "live_end_bytes": live, "live_peak_bytes": live,
                           "live_peak_time_ns": len(points) * step_ns})
        point = points[-1]
        point["calls"] += event.is_call
        if event.makes or event.resizes:
            before = size.get(event.slot, 0) if event.resizes else 0
            size[event.slot] = event.size_bytes
            live += event.size_bytes - before
            point["freed_bytes"] += before
            point["requests"] += event.is_call
            point["allocated_bytes"] += event.size_bytes if event.is_call else 0
        elif event.ends:
            live -= size[event.slot]
            point["frees"] += event.is_call
            point["freed_bytes"] += size.pop(event.slot)
        point["live_end_bytes"] = live
        if live > point["live_peak_bytes"]:
            point |= {"live_peak_bytes": live, "live_peak_time_ns": event.time_ns}
    return points


@pytest.mark.parametrize("name", quick(set(NAMES) - {"python"}, NAMES))
@pytest.mark.parametrize("points", quick([7, 5000], [1, 7, 200, 5000]))
def test_churn(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]], name: str, points: int) -> None:
    """Whether the trace says beforehand how long it is, or not (`made` does not)."""
    done = tools.succeed([tools.heaptape, "stats", "--json", "--points", str(points), traces[name]])
    churn = json.loads(done.stdout)["churn"]
    model = churn_model(dumped[name], churn["step_ns"])
    assert len(model) <= points
    assert len(model) > points / 2 - 1 or churn["step_ns"] < 100
    assert [row.pop("time_ns") for row in churn["points"]] == \
        [i * churn["step_ns"] for i in range(len(model))]
    assert churn["points"] == model


@pytest.mark.thorough
def test_text_says_the_same(tools: Tools, traces: dict[str, Path]) -> None:
    for name, trace in traces.items():
        stats = json.loads(tools.succeed([tools.heaptape, "stats", "--json", trace]).stdout)
        text = tools.succeed([tools.heaptape, "stats", trace]).stdout.decode()
        assert f"{stats['events']:,} calls" in text, name
        info = json.loads(tools.succeed([tools.heaptape, "info", "--json", trace]).stdout)
        assert info.get("duration_ns", stats["duration_ns"]) == stats["duration_ns"], name
        for function, row in stats["functions"].items():
            assert any(line.split()[:2] == [function, f"{row['calls']:,}"]
                       for line in text.splitlines()), function
        if stats["threads"]["count"] > 1:
            assert f"{stats['threads']['cross_frees']:,} frees" in text
        narrow = tools.succeed([tools.heaptape, "stats", trace], env={"COLUMNS": "80"}).stdout.decode()
        assert max(map(len, narrow.splitlines()[1:])) <= 80


@pytest.mark.thorough
def test_more_threads_than_columns(tools: Tools, tmp_path: Path) -> None:
    """Sixteen threads have a row and a column each, all others share one."""
    trace = tmp_path / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "40000", "300", "40", "9"])
    stats = json.loads(tools.succeed([tools.heaptape, "stats", "--json", trace]).stdout)
    threads = stats["threads"]
    assert threads["count"] == 40 and len(threads["rows"]) == 17
    assert threads["rows"][-1]["thread"] is None
    assert sum(map(sum, threads["frees"])) == stats["frees"]
    assert sum(row["allocations"] for row in threads["rows"]) == stats["allocations"]
    chosen = [row["thread"] for row in threads["rows"][:-1]]
    calls = Counter(e.thread for e in events_of(tools, trace))
    assert Counter({t: calls[t] for t in chosen}).total() == \
        sum(count for _, count in calls.most_common(16))
    assert "others" in tools.succeed([tools.heaptape, "stats", trace]).stdout.decode()


def test_a_cut_trace_is_counted_as_far_as_it_goes(tools: Tools, traces: dict[str, Path],
                                                  tmp_path: Path) -> None:
    (tmp_path / "cut.bin").write_bytes(traces["golden"].read_bytes()[:-40])
    done = run([tools.heaptape, "stats", "--json", tmp_path / "cut.bin"])
    assert done.returncode == 3 and b"cut short" in done.stderr
    stats = json.loads(done.stdout)
    assert stats["truncated"]
    assert stats["events"] == tools.info(traces["golden"])["events"]


@pytest.mark.parametrize("points", ["0", "-1", "x", "99999999"])
def test_bad_points(tools: Tools, traces: dict[str, Path], points: str) -> None:
    assert run([tools.heaptape, "stats", "--points", points, traces["golden"]]).returncode == 2


def test_sizes_beyond_what_json_integers_hold(tools: Tools, tmp_path: Path) -> None:
    """malloc(SIZE_MAX), which fails, is as large as it is: not -1."""
    (tmp_path / "calls.txt").write_text(f"x10 = malloc(9);\nx0 = malloc({2**64 - 1});\n")
    tools.succeed([tools.heaptape, "convert", "-q", tmp_path / "calls.txt"])
    stats, lint = (json.loads(tools.succeed([tools.heaptape, verb, "--json",
                                             tmp_path / "calls.bin"]).stdout)
                   for verb in ("stats", "lint"))
    assert stats["largest_failed_bytes"] == float(2**64 - 1)
    failed = next(row for row in lint["findings"] if row["finding"] == "failed_call")
    assert [row["size"] for row in failed["examples"]] == [float(2**64 - 1)]


@pytest.mark.thorough
def test_a_chain_of_any_length(tools: Tools, tmp_path: Path) -> None:
    """A block that grows byte by byte."""
    steps = 1_100_000
    with open(tmp_path / "grows.rep", "w") as file:
        file.write(f"1\n1\n{steps + 1}\n1\na 0 16\n")
        file.writelines(f"r 0 {size}\n" for size in range(17, 17 + steps))
    tools.succeed([tools.heaptape, "convert", "-q", tmp_path / "grows.rep"])
    stats = json.loads(tools.succeed([tools.heaptape, "stats", "--json",
                                      tmp_path / "grows.bin"]).stdout)
    assert (stats["reallocs"]["chains"], stats["reallocs"]["longest_chain"]) == (1, steps)
    assert stats["reallocs"]["chain_growth"][-1]["count"] == 1
