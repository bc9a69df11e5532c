# SPDX-License-Identifier: Apache-2.0
"""heaptape extend: what it repeats goes on as it was, and what is not steady is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dump_lines import events_of
from heaptape import live_bytes_curve, read_trace
from naive_writer import Event, TraceSpec, build
from quick_tier import quick
from service_load import MS, Service, day, write_service
from shared_folder import shared_folder
from tool_runner import Tools, run

UNDECIDED = 5


@pytest.fixture(scope="module")
def services(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    kinds = {
        "plain": Service(),
        "sessions": Service(threads=3, sessions=True, duration_ms=10_000),
        "leak": Service(leak=lambda part: 6),
        "slow leak": Service(leak=lambda part: 0.4),
        "accelerating": Service(leak=lambda part: 24 * part),
        "day": Service(rate=day),
        "ends": Service(duration_ms=14_000, ends_ms=6000),
        "phases": Service(rate=lambda part: 0.4 if part < 0.6 else 1.2),
        "sawtooth": Service(rate=lambda part: 0.8 + 0.4 * (part * 2 % 1), base_blocks=20_000),
    }

    def make(folder: Path) -> None:
        for name, service in kinds.items():
            write_service(tools, folder / f"{name}.bin", service)

    folder = shared_folder(tmp_path_factory, "services", make)
    return {name: folder / f"{name}.bin" for name in kinds}


def extended(tools: Tools, trace: Path, output: Path, *options: object) -> dict[str, object]:
    done = tools.succeed([tools.heaptape, "extend", trace, "-o", output, "--json", *map(str, options)])
    said: dict[str, object] = json.loads(done.stdout)
    return said


def info_of(tools: Tools, trace: Path) -> dict[str, object]:
    info: dict[str, object] = json.loads(tools.succeed([tools.heaptape, "info", "--json", trace]).stdout)
    return info


def refused(tools: Tools, trace: Path, output: Path, *options: object, status: int = UNDECIDED) -> str:
    done = run([tools.heaptape, "extend", trace, "-o", output, *map(str, options)])
    assert done.returncode == status and not output.exists() and not done.stdout
    text = done.stderr.decode()
    assert text.startswith("heaptape extend: ") and text.count("\n") == 1, text
    return text


def live_by_time(trace: Path, ends_ns: np.ndarray) -> np.ndarray:
    """Means of live bytes between these times."""
    curve = live_bytes_curve(read_trace(trace))
    time, live = curve["time_ns"].to_numpy(), curve["live_bytes"].to_numpy().astype(float)
    area = np.concatenate([[0.0], np.cumsum(live[:-1] * np.diff(time))])
    at = np.searchsorted(time, ends_ns, side="right") - 1
    until = area[at] + live[at] * (ends_ns - time[at])
    return np.diff(until) / np.diff(ends_ns)


@pytest.mark.parametrize("kind", quick(["plain"], ["plain", "sessions"]))
def test_live_bytes_stay_within_one_per_cent_over_twenty_loops(
        tools: Tools, services: dict[str, Path], tmp_path: Path, kind: str) -> None:
    said = extended(tools, services[kind], tmp_path / "long.bin", "--from", 4, "--until", 9, "--to", 115)
    loop_ns = said["until_ns"] - said["from_ns"]
    assert said["loops"] >= 20 and not said["grows"]
    ends = said["from_ns"] + loop_ns * np.arange(said["loops"])
    live = live_by_time(tmp_path / "long.bin", ends)
    assert np.abs(live[1:] / live[0] - 1).max() < 0.01
    curve = live_bytes_curve(read_trace(tmp_path / "long.bin"))
    assert curve["time_ns"].iloc[-1] < 115_000 * MS <= curve["time_ns"].iloc[-1] + 100 * MS


def test_each_loop_has_the_calls_of_the_stretch(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    said = extended(tools, services["plain"], tmp_path / "long.bin", "--from", 4, "--until", 9, "--to", 21)
    before, after = events_of(tools, services["plain"]), events_of(tools, tmp_path / "long.bin")
    end, shift = said["end_event"], said["until_ns"] - said["from_ns"]
    # What was recorded comes first, as it was.
    assert [(e.time_ns, e.thread, e.function, e.size, e.extra) for e in after[:end]] == \
           [(e.time_ns, e.thread, e.function, e.size, e.extra) for e in before[:end]]
    stretch = [(e.time_ns + shift, e.function, e.size, e.extra) for e in before[said["from_event"]:end]]
    loop = [(e.time_ns, e.function, e.size, e.extra) for e in after[end:end + said["loop_events"]]]
    # Of what is new all is there, but for what has no partner.
    missing = len(stretch) - len(loop)
    assert missing <= 4 * (said["unmatched_made"] + said["unmatched_freed"])
    assert set(loop) <= set(stretch)


def test_a_program_that_ends_in_order_is_cut_off_there(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    """It frees for 6 of its 20 s."""
    said = extended(tools, services["ends"], tmp_path / "long.bin", "--to", "60s")
    assert not said["grows"] and 13_000 * MS < said["until_ns"] <= 14_100 * MS
    assert "; the program's end, from 14 s on, is left out" in str(said["why"])
    assert said["live_to_high_bytes"] - said["live_to_low_bytes"] < said["live_to_bytes"]


def test_a_phase_of_several_is_named_with_the_command_that_cuts_it_out(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    text = refused(tools, services["phases"], tmp_path / "no.bin", "--to", "1h")
    assert "one phase of several: " in text
    command = text.partition("cut it out by heaptape ")[2].split()
    tools.succeed([tools.heaptape, *command, services["phases"], "-q", "-o", tmp_path / "phase.bin"])
    assert extended(tools, tmp_path / "phase.bin", tmp_path / "long.bin", "--to", "60s")["loops"] > 3


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["plain", "sessions"])
def test_the_extended_trace_is_a_trace(tools: Tools, services: dict[str, Path], tmp_path: Path, kind: str) -> None:
    long = tmp_path / "long.bin"
    said = extended(tools, services[kind], long, "--to", "24s")
    assert b"no defects" in tools.succeed([tools.heaptape, "lint", long]).stdout
    info = info_of(tools, long)
    trace = read_trace(long)
    assert info["context"]["extended"] == said and info["events"] == trace.records == len(events_of(tools, long))
    assert info["duration_ns"] == 24_000 * MS and info["recorded_rss_peak_bytes"] is None
    curve = live_bytes_curve(trace)
    assert info["peak_live_bytes"] == curve["live_bytes"].max()
    assert info["end_live_bytes"] == curve["live_bytes"].iloc[-1]
    threads = trace.threads
    events = events_of(tools, long)
    for number, calls in enumerate(threads["calls"]):
        assert calls == sum(event.thread == number for event in events)
    words = tools.succeed([tools.heaptape, "info", long]).stdout.decode()
    assert "is extrapolated from" in words
    tools.succeed([tools.replay_program, "-q", "--pass", "verify", "--alloc", "glibc,mimalloc", long])


@pytest.mark.thorough
def test_threads_come_and_go(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    long = tmp_path / "long.bin"
    said = extended(tools, services["sessions"], long, "--to", "40s")
    before, after = read_trace(services["sessions"]).threads, read_trace(long).threads
    per_loop = ((before["start_ns"] >= said["from_ns"]) & (before["start_ns"] < said["until_ns"])).sum()
    whole_loops = said["loops"] - 1
    assert per_loop > 50 and len(after) >= whole_loops * per_loop
    # Never more at a time than in the recording, but for those that were just beginning and ending.
    def most_at_once(threads: object) -> int:
        ends = np.where(threads["ended"], threads["end_ns"], 10**18)
        return max(int(((threads["start_ns"] <= at) & (ends > at)).sum()) for at in threads["start_ns"])
    assert most_at_once(after) <= most_at_once(before) + 2


@pytest.mark.thorough
def test_replay_extends_without_a_file(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    said = extended(tools, services["plain"], tmp_path / "long.bin", "--to", "60s")
    common = ["-q", "--pass", "memory", "--rounds", "1", "--seed", "3", "--layout", "fixed", "--alloc", "glibc", "-o"]
    done = tools.succeed([tools.replay_program, *common, tmp_path / "file.jsonl", tmp_path / "long.bin"])
    streamed = tools.succeed([tools.replay_program, *common, tmp_path / "made.jsonl", "--extend", "60s",
                              "--decoded-memory", "1", services["plain"]])
    lines = [json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[0]) for name in ("file", "made")]
    assert lines[0]["calls"] == lines[1]["calls"] and lines[0]["live_peak_bytes"] == lines[1]["live_peak_bytes"]
    shown = {name: said[name] for name in ("from_ns", "until_ns", "to_ns", "grows")} | {"live_to_bytes": round(said["live_to_bytes"])}
    for line in lines:
        slope = line["trace"]["extended"].pop("live_slope_bytes_per_hour")
        assert line["trace"]["extended"] == shown and slope == pytest.approx(said["live_slope_bytes_per_hour"])
    assert lines[0]["trace"]["events"] == lines[1]["trace"]["events"] > read_trace(services["plain"]).records
    assert not lines[0]["streamed"] and lines[1]["streamed"]
    assert lines[0]["rss_end_bytes"] == pytest.approx(lines[1]["rss_end_bytes"], rel=0.05)
    assert lines[0]["process_rss_peak_bytes"] is None and lines[1]["process_rss_peak_bytes"] is None
    for answer in (done, streamed):
        assert b"is extrapolated from" in answer.stdout and b"MB peak RssAnon" not in answer.stdout


@pytest.mark.thorough
def test_growth_goes_on_as_it_was(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    said = extended(tools, services["leak"], tmp_path / "long.bin", "--from", 6, "--until", 18, "--to", 100)
    assert said["grows"] and said["live_slope_low"] > 0
    # A stretch that was given is taken, and what it leaves open is said.
    assert 0 <= said["live_to_low_bytes"] < said["live_to_bytes"] < said["live_to_high_bytes"]
    assert b"; live bytes at its end: " in tools.succeed([tools.heaptape, "info", tmp_path / "long.bin"]).stdout
    loop_ns = said["until_ns"] - said["from_ns"]
    live = live_by_time(tmp_path / "long.bin", said["from_ns"] + loop_ns * np.arange(said["loops"]))
    per_loop = said["live_slope_bytes_per_hour"] / 3600e9 * loop_ns
    assert np.diff(live[1:]) == pytest.approx(per_loop, rel=0.02)
    assert np.diff(live[:2]) == pytest.approx(per_loop, rel=0.5)  # what was recorded is drawn


@pytest.mark.parametrize(("kind", "options", "words"), [
    ("accelerating", (), "faster and faster|do not change evenly"),
    ("leak", (), "whether that slows down or speeds up would show in a longer stretch"),
    ("slow leak", ("--from", 11, "--until", 16), "changes slowly, which shows together with the time before it"),
    ("day", (), "changes|do not change evenly|one phase|fall: "),
    ("phases", ("--from", 2, "--until", 11), "one phase of several"),
    ("phases", (), "no steady stretch"),
    ("sawtooth", ("--from", 0.3, "--until", 19.7), "% of its mean within a half of the stretch"),
    ("plain", ("--from", 5, "--until", 5.2), "too short"),
    ("plain", ("--from", 0, "--until", 3), "do not change evenly|number of live blocks|scatter too much"),
])
def test_what_is_not_steady_is_refused(tools: Tools, services: dict[str, Path], tmp_path: Path, kind: str,
                                       options: tuple[object, ...], words: str) -> None:
    text = refused(tools, services[kind], tmp_path / "no.bin", *options, "--to", "1h")
    assert any(word in text for word in words.split("|")), text
    if not options:
        done = run([tools.replay_program, "--extend", "1h", "--alloc", "glibc", services[kind]])
        assert done.returncode == UNDECIDED and not done.stdout and text.partition(": ")[2].encode() in done.stderr


def written(path: Path, held: int, size: int, made: float, freed: float, threads: list[tuple[int, bool]] = [(0, False)],  # noqa: B006
            exit_s: int = 0, peak_bytes: int = 0) -> Path:
    """60 s of 500 short-lived blocks a second, beside so many that are held from the start on, of which these shares of the 30,000 rounds
    make another or free one; and threads that begin in a round, and end with the next one's or not."""
    rnd, events, live, free, slots = np.random.default_rng(20817), [], [*range(2, held + 2)], [], held + 2
    events += [Event(1, slot=slot, size=size) for slot in live]
    rows, first = [], {0: 0}
    begins = dict(zip((round_ for round_, _ in threads), range(len(threads)), strict=True))
    draws = rnd.random(30_000)
    for i in range(30_000):
        time = 2 * i * MS
        thread = begins.get(i, 0)
        first.setdefault(thread, len(events))
        events += [Event(1, slot=1, size=100, time=time, thread=thread), Event(5, slot=1, time=time + MS, thread=thread)]
        if draws[i] < made:
            slots += not free
            slot = free.pop() if free else slots - 1
            live.append(slot)
            events.append(Event(1, slot=slot, size=size, time=time + MS))
        elif draws[i] > 1 - freed:
            free.append(live.pop(int(rnd.integers(len(live)))))
            events.append(Event(5, slot=free[-1], time=time + MS))
    for number, (round_, ends) in enumerate(threads):
        calls = sum(event.thread == number for event in events)
        rows.append((7 + number, first[number], 2 * round_ * MS, calls, 2 * round_ * MS + MS if ends else events[-1].time, int(ends), "job"))
    if peak_bytes:  # a second before the end, for a tenth
        events += [Event(1, slot=slots, size=peak_bytes, time=59_000 * MS), Event(5, slot=slots, time=59_100 * MS)]
        events.sort(key=lambda event: event.time)
    samples = [(exit_s * 1000 * MS, len(events), 1 << 20, 1 << 16, 0, 1)] if exit_s else []
    path.write_bytes(build(TraceSpec(events, threads=rows, samples=samples))[0])
    return path


@pytest.mark.thorough
def test_a_program_that_idles_until_its_exit_is_not_steady(tools: Tools, tmp_path: Path) -> None:
    """The last measurement is of its exit, minutes after the last call."""
    assert extended(tools, written(tmp_path / "t.bin", 1000, 400, 0, 0, exit_s=60), tmp_path / "long.bin", "--to", "10m")["loops"] > 5
    text = refused(tools, written(tmp_path / "idle.bin", 1000, 400, 0, 0, exit_s=300), tmp_path / "no.bin", "--to", "10m")
    assert "no steady stretch" in text
    assert "after the end of the recording, 5:00, found" in \
        refused(tools, tmp_path / "idle.bin", tmp_path / "no.bin", "--to", "4m", status=2)


@pytest.mark.thorough
def test_a_recorded_peak_that_is_left_out_is_said(tools: Tools, tmp_path: Path) -> None:
    plain, peak = written(tmp_path / "t.bin", 1000, 400, 0, 0), written(tmp_path / "peak.bin", 1000, 400, 0, 0, peak_bytes=10_000_000)
    assert "left_out_live_peak_bytes" not in extended(tools, plain, tmp_path / "plain.bin", "--until", "55s", "--to", "10m")
    said = extended(tools, peak, tmp_path / "long.bin", "--until", "55s", "--to", "10m")
    assert said["left_out_live_peak_bytes"] == pytest.approx(10_400_000, rel=0.02)
    words = tools.succeed([tools.heaptape, "info", tmp_path / "long.bin"]).stdout.decode()
    assert " s is left out: live bytes reached 10.4 MB there" in words


@pytest.mark.thorough
def test_a_growth_is_continued_from_the_middle_of_the_stretch(tools: Tools, tmp_path: Path) -> None:
    """What is said to be live at the end is what the extension ends with."""
    said = extended(tools, written(tmp_path / "t.bin", 1000, 400, 0.1, 0), tmp_path / "long.bin", "--to", "90s")
    end = info_of(tools, tmp_path / "long.bin")["end_live_bytes"]
    assert said["grows"] and said["live_to_low_bytes"] < end < said["live_to_high_bytes"]
    assert said["live_to_bytes"] == pytest.approx(end, rel=0.02) == pytest.approx(400 * (1000 + 0.1 * 45_000), rel=0.04)


@pytest.mark.thorough
def test_a_level_that_falls_slowly_holds_for_a_while(tools: Tools, tmp_path: Path) -> None:
    """By less than 0.5 % over the stretch: its value lies within its range, and where the fall would matter it is refused."""
    trace = written(tmp_path / "t.bin", 20_000, 1000, 0, 0.003)
    said = extended(tools, trace, tmp_path / "long.bin", "--to", "90s")
    assert not said["grows"] and said["live_slope_high"] < 0
    assert 0 < said["live_to_low_bytes"] < said["live_to_bytes"] <= said["live_to_high_bytes"]
    text = refused(tools, trace, tmp_path / "no.bin", "--to", "24h")
    assert "too slowly to say whether that goes on" in text
    given = extended(tools, trace, tmp_path / "given.bin", "--from", "5s", "--until", "58s", "--to", "24h")
    assert 0 <= given["live_to_low_bytes"] <= given["live_to_bytes"] <= given["live_to_high_bytes"]
    done = tools.succeed([tools.heaptape, "extend", trace, "--until", "58s", "--to", "90s"])
    assert b" (given): " in done.stdout.splitlines()[0]


@pytest.mark.thorough
@pytest.mark.parametrize(("ends", "words"), [(True, None), (False, "the number of threads changes: ")])
def test_threads_that_never_end_are_refused(tools: Tools, tmp_path: Path, ends: bool, words: str | None) -> None:
    """Live bytes do not show them: what they take is stacks and caches."""
    threads = [(0, False), *((round_, ends) for round_ in range(500, 29_500, 500))]
    trace = written(tmp_path / "t.bin", 1000, 400, 0, 0, threads)
    if words:
        assert words in refused(tools, trace, tmp_path / "no.bin", "--to", "10m")
    else:
        assert extended(tools, trace, tmp_path / "long.bin", "--to", "10m")["loops"] > 5


def test_frees_of_blocks_from_before_are_refused(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    """A late start of the recording, as imported: its first seconds are left out."""
    lines = services["plain"].with_suffix(".txt").read_text().splitlines()
    late = tmp_path / "late.txt"
    late.write_text("\n".join(line for line in lines if int(line.split()[-1]) > 3000 * MS) + "\n")
    tools.succeed([tools.heaptape, "convert", "-q", late, "-o", tmp_path / "late.bin"])
    text = refused(tools, tmp_path / "late.bin", tmp_path / "no.bin", "--from", 0, "--until", 1, "--to", "1h")
    assert "from before the recording" in text


def test_bad_usage_and_bad_input(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    trace, none = services["plain"], tmp_path / "no.bin"
    assert "after the end of the recording" in refused(tools, trace, none, "--to", "5s", status=2)
    for options in ((), ("--to", "soon"), ("--to", "1h", "--from", "9s", "--until", "8s")):
        done = run([tools.heaptape, "extend", trace, "-o", none, *options])
        assert done.returncode == 2 and not none.exists()
    done = run([tools.heaptape, "extend", trace, "-o", trace, "--to", "1h"])
    assert done.returncode == 2
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(trace.read_bytes()[:-1000])
    assert "cut short or damaged" in refused(tools, damaged, none, "--to", "1h", status=3)
    extended(tools, trace, tmp_path / "long.bin", "--to", "60s")
    text = refused(tools, tmp_path / "long.bin", none, "--to", "1h", status=3)
    assert "expected a recording" in text


@pytest.mark.thorough
def test_a_slot_out_of_reach_is_refused(tools: Tools, tmp_path: Path) -> None:
    """Steady as it is: a table of the slots up to that one would take gigabytes."""
    events, trace, none = [], tmp_path / "t.bin", tmp_path / "no.bin"
    for i in range(100_000):
        slot = 1 << 26 if i == 50_000 else 1 + i // 2 % 100
        events.append(Event(5 if i % 2 else 1, slot=slot, size=0 if i % 2 else 100, time=i * MS // 10))
    events[50_001] = Event(5, slot=1 << 26, time=50_001 * MS // 10)
    trace.write_bytes(build(TraceSpec(events, threads=[(7, 0, 0, len(events), events[-1].time, 0, "main")]))[0])
    text = refused(tools, trace, none, "--to", "60s", status=3)
    assert text.endswith("expected slot numbers without a gap, found 67108864\n")
    done = run([tools.replay_program, "--extend", "60s", "--alloc", "glibc", trace])
    assert done.returncode == 3 and b"expected slot numbers without a gap" in done.stderr


def test_a_slice_says_that_it_is_of_an_extension(tools: Tools, services: dict[str, Path], tmp_path: Path) -> None:
    extended(tools, services["plain"], tmp_path / "long.bin", "--to", "60s")
    tools.succeed([tools.heaptape, "slice", "-q", tmp_path / "long.bin", "--from-time", "40s", "-o", tmp_path / "cut.bin"])
    assert b"cut from an extension" in tools.succeed([tools.heaptape, "info", tmp_path / "cut.bin"]).stdout


def test_without_an_output_it_only_says_what_it_would_repeat(tools: Tools, services: dict[str, Path]) -> None:
    done = tools.succeed([tools.heaptape, "extend", services["plain"], "--to", "24h"])
    text = done.stdout.decode()
    assert text.startswith("steady from ") and "repeated " in text and "live at the end: " in text
