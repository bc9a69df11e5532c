# SPDX-License-Identifier: Apache-2.0
"""heaptape forecast: RSS at a later time with intervals, growth where it is shown, and no figure where it is not."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from pathlib import Path

import judged_runs
import pytest
from heaptape.base.errors import Undecided, UsageError
from heaptape.forecast import parts
from heaptape.forecast.parts import difference, estimate, growth_left_out, rss_and_slope
from heaptape.judge.attached import Replayed
from heaptape.judge.comparison import compare
from service_load import Service, write_service
from tool_runner import Tools, run


def test_estimates() -> None:
    three = estimate([9.0, 10.0, 11.0])
    assert three.value == 10 and three.high - 10 == pytest.approx(4.303 / math.sqrt(3)) and three.resolved
    assert not estimate([-1.0, 0.5, 1.0]).resolved
    assert estimate([10.0, 10.0], more=2).low == 8
    assert estimate([5.0]).low == -math.inf


def test_two_allocators_are_compared_part_by_part() -> None:
    """What the parts have in common hides no difference."""
    leaky, base = [130.0, 61.0, 2.0], [70.0, 0.0, -57.0]
    assert not estimate(leaky, more=50).resolved
    apart = difference(leaky, base)
    assert apart.value == pytest.approx(60) and apart.resolved and apart.high - apart.low == pytest.approx(2 * 4.303 / math.sqrt(3))


def test_rss_and_slope_are_of_what_is_extrapolated() -> None:
    hour = 3600 * 10**9
    line = {"trace": {"extended": {"from_ns": 0, "until_ns": hour, "to_ns": 11 * hour}},
            "timeline": {"time_ns": [n * hour / 100 for n in range(1101)], "rss_bytes": [n * 5e5 if n < 100 else 49e6 + n * 1e4 for n in range(1101)]}}
    rss, slope = rss_and_slope(line)
    assert rss == pytest.approx(59.5e6, rel=0.001) and slope == pytest.approx(1e6, rel=0.001)


def test_rss_counts_by_the_time_that_it_lasts() -> None:
    """A server that works for a tenth of each second, in which all readings are."""
    second = 10**9
    line = {"trace": {"extended": {"from_ns": 0, "until_ns": 10 * second, "to_ns": 100 * second}},
            "timeline": {"time_ns": [n * second + part * second / 100 for n in range(100) for part in range(11)] + [100 * second],
                         "rss_bytes": [1e6 if part == 10 else 11e6 for n in range(100) for part in range(11)] + [1e6]}}
    rss, slope = rss_and_slope(line)
    assert rss == pytest.approx(2e6) and slope == pytest.approx(0, abs=1e7)


def test_parts_grow_as_the_whole_stretch_does() -> None:
    """A third of it is too short to show a slow growth, or shows one that is none."""
    hour = 3600 * 10**9
    grows = {"from_ns": 0, "until_ns": hour, "to_ns": 11 * hour, "grows": True, "live_to_bytes": 31e6, "live_slope_bytes_per_hour": 2e6}
    level = {**grows, "grows": False, "live_to_bytes": 10e6, "live_slope_bytes_per_hour": 0.3e6}
    # Of 9 hours behind the first repetition the last tenth counts, in the mean 27 minutes before the end.
    assert growth_left_out(grows, level) == pytest.approx((21e6 - 2e6 * 0.45, 2e6))
    assert growth_left_out(level, grows) == pytest.approx((-21e6 + 2e6 * 0.45, -2e6))
    assert growth_left_out(grows, grows) == growth_left_out(level, {**level, "live_to_bytes": 9e6}) == (0, 0)


@pytest.mark.parametrize(("status", "error"), [(1, None), (2, UsageError), (5, Undecided)])
def test_one_of_two_fails(monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception] | None) -> None:
    """Of the other there is a line; other failures are all the part's."""
    runs = judged_runs.measurements([[judged_runs.cell(), judged_runs.cell(memory={}), judged_runs.cell()]])
    replayed = Replayed(status, "heaptape replay: bad, round 1, memory pass: killed\n", compare(judged_runs.context(["bad", "glibc"]), runs))
    monkeypatch.setattr(parts.attached, "replay", lambda _command, curves: replayed)
    found = parts.Replayed()
    with pytest.raises(error) if error else nullcontext():
        assert list(parts._replay_part(["replay"], found)) == ["glibc"] and found.failures == ["bad, round 1, memory pass: killed"]


@pytest.mark.thorough
@pytest.mark.parametrize("leak", [0, 25])
def test_a_service(tools: Tools, tmp_path: Path, leak: int) -> None:
    trace = write_service(tools, tmp_path / "s.bin", Service(duration_ms=24_000, lifetime_ms=100, leak=lambda part: leak))
    done = tools.succeed([tools.heaptape, "forecast", "--json", "--to", "65s", "--alloc", "glibc,mimalloc", trace])
    said = json.loads(done.stdout)
    assert {item["name"] for item in said["allocators"]} == {"glibc", "mimalloc"} and 2 <= said["parts"] <= 3
    for item in said["allocators"]:
        rss, slope = item["rss_bytes"], item["slope_bytes_per_hour"]
        assert 0 < rss["ci_low"] < rss["value"] < rss["ci_high"] or leak == 0
        assert slope["resolved"] == (slope["ci_low"] > 0 or slope["ci_high"] < 0)
        if leak:
            assert slope["resolved"] and slope["ci_low"] < said["extended"]["live_slope_bytes_per_hour"] * 1.1 and slope["value"] > 0
    text = tools.succeed([tools.heaptape, "forecast", "--to", "60s", "--alloc", "glibc", trace]).stdout.decode()
    assert text.startswith("extrapolated: ") and "MB/hour" in text
    if leak:
        assert "growth not resolved" not in text


@pytest.mark.thorough
def test_a_leak_of_one_allocator_is_resolved(tools: Tools, tmp_path: Path) -> None:
    """It keeps one block in a hundred that are freed: some 3 blocks a second."""
    trace = write_service(tools, tmp_path / "s.bin", Service(duration_ms=24_000, lifetime_ms=100, rate=lambda part: 3))
    keeps = f"keeps={tools.target('faulty_malloc.so')}"
    command = [tools.heaptape, "forecast", "--to", "5m", "--alloc", f"glibc,{keeps}", trace]
    said = json.loads(tools.succeed([*command, "--json"], env={"FAULTY_MALLOC": "keeps"}).stdout)
    base, leaky = said["allocators"] if said["allocators"][0]["name"] == "glibc" else said["allocators"][::-1]
    against = leaky["against_baseline"]
    assert said["baseline"] == "glibc" and base["against_baseline"] is None
    assert against["slope_bytes_per_hour"]["resolved"] and against["rss_bytes"]["ci_low"] > 0
    text = tools.succeed(command, env={"FAULTY_MALLOC": "keeps"}).stdout.decode()
    assert "grows more than glibc" in text and "against glibc, MB" in text


@pytest.mark.thorough
def test_what_is_not_steady_has_no_forecast(tools: Tools, tmp_path: Path) -> None:
    trace = write_service(tools, tmp_path / "s.bin", Service(duration_ms=8000, leak=lambda part: 24 * part))
    done = run([tools.heaptape, "forecast", "--to", "1h", "--alloc", "glibc", trace])
    assert done.returncode == 5 and not done.stdout and b"cannot be extended" in done.stderr
    done = run([tools.heaptape, "forecast", "--to", "1s", "--alloc", "glibc", trace])
    assert done.returncode == 2


@pytest.mark.thorough
def test_other_machines_and_more_load(tools: Tools, tmp_path: Path) -> None:
    trace = write_service(tools, tmp_path / "s.bin", Service(duration_ms=24_000, lifetime_ms=100))
    command = [tools.heaptape, "forecast", "--to", "30s", "--alloc", "glibc", "--parts", "2"]
    alone = json.loads(tools.succeed([*command, "--json", trace]).stdout)["allocators"]
    more = json.loads(tools.succeed([*command, "--json", "--cpus", "8,1,8", "--scale", "2", trace]).stdout)
    assert more["scale"] == 2 and [item["processors"] for item in more["allocators"]] == [8, 1]
    assert alone[0]["processors"] is None
    for item in more["allocators"]:
        assert 1.5 < item["rss_bytes"]["value"] / alone[0]["rss_bytes"]["value"] < 2.5
    text = tools.succeed([*command, "--cpus", "1,8", trace]).stdout.decode().splitlines()
    assert [line.split()[:2] for line in text[-5:-2]] == [["processors", "allocator"], ["1", "glibc"], ["8", "glibc"]]
    for wrong in (["--parts", "1000"], ["--parts", "1"], ["--cpus", "0"], ["--cpus", "4,x"], ["--cpus", "²"], ["--scale", "0"], ["--scale", "1001"], ["--to", "0"]):
        done = run([*command, *wrong, trace])
        assert done.returncode == 2 and b"expected" in done.stderr, wrong


@pytest.mark.thorough
def test_an_allocator_that_fails_costs_the_others_nothing(tools: Tools, tmp_path: Path) -> None:
    trace = write_service(tools, tmp_path / "s.bin", Service(duration_ms=24_000, lifetime_ms=100))
    bad = f"bad={tools.target('faulty_malloc.so')}"
    done = run([tools.heaptape, "forecast", "--to", "40s", "--alloc", f"glibc,{bad}", trace],
               env={"FAULTY_MALLOC": "abort"})
    assert done.returncode == 1 and b"glibc" in done.stdout and b"bad" not in done.stdout
    assert b"an allocator that fails has no forecast: " in done.stderr and b"bad" in done.stderr
