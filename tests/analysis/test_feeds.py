# SPDX-License-Identifier: Apache-2.0
"""`heaptape compare --to`: each feed read back by its consumer's scheme, and its figures held against the results."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import jsonschema
import numpy as np
import pytest
import results_factory
from heaptape import accounts_along, read_snapshots
from heaptape.results.comparison import estimate_difference
from verbs_here import run_here

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("null", "glibc", "mimalloc")

# https://bencher.dev/bmf.json, and no key beyond those that it names.
BENCHER = {
    "type": "object", "minProperties": 1, "additionalProperties": {
        "type": "object", "minProperties": 1, "additionalProperties": {
            "type": "object", "required": ["value"], "additionalProperties": False, "properties": {
                "value": {"type": "number"}, "lower_value": {"type": "number"}, "upper_value": {"type": "number"}}}}}
# BenchmarkResults in src/extract.ts of github-action-benchmark 1.22, which would turn other types into these.
GITHUB_ACTION = {
    "type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["name", "value", "unit"], "additionalProperties": False, "properties": {
            "name": {"type": "string"}, "value": {"type": "number"}, "unit": {"type": "string"}, "range": {"type": "string"}, "extra": {"type": "string"}}}}
_SECONDS = {"type": "number"}
# BenchmarkResult in src/benchmark/benchmark_result.rs of hyperfine 1.20, without user and system time.
HYPERFINE = {
    "type": "object", "required": ["results"], "additionalProperties": False, "properties": {"results": {"type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["command", "mean", "stddev", "median", "min", "max", "times", "exit_codes", "parameters"],
        "additionalProperties": False, "properties": {
            "command": {"type": "string"}, "mean": _SECONDS, "stddev": {"type": ["number", "null"]}, "median": _SECONDS, "min": _SECONDS, "max": _SECONDS,
            "times": {"type": "array", "items": _SECONDS}, "exit_codes": {"type": "array", "items": {"type": "integer"}},
            "parameters": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}


def _rows(rounds: int) -> list[dict[str, Any]]:
    return results_factory.schedule(rounds, NAMES, touch_free="recorded")


def _results(folder: Path, rounds: int = 6) -> Path:
    return results_factory.write(folder / "r.jsonl", _rows(rounds))


def _fed(results: Path, form: str, *more: object, status: int = 0) -> bytes:
    path = results.with_name(f"out.{form}")
    done = run_here("compare", results, "--to", form, "-o", path, *more, cwd=results.parent)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    return path.read_bytes()


def _values(results: Path, allocator: str, key: str) -> list[float]:
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return [row[key] for row in rows if row["allocator"]["name"] == allocator and row.get(key) is not None]


@pytest.mark.thorough
def test_bencher(tmp_path: Path) -> None:
    results = _results(tmp_path)
    found = json.loads(_fed(results, "bencher"))
    jsonschema.validate(found, BENCHER)
    assert set(found) == {"job.bin glibc", "job.bin mimalloc"}
    for key, measure in (("alloc_time_ns", "time"), ("rss_peak_bytes", "rss-peak")):
        for name in ("glibc", "mimalloc"):
            values, metric = _values(results, name, key), found[f"job.bin {name}"][measure]
            own = estimate_difference(np.array(values, float))
            assert metric == {"value": median(values), "lower_value": own.ci_low, "upper_value": own.ci_high}
            assert min(values) <= metric["lower_value"] <= metric["value"] <= metric["upper_value"] <= max(values)
    ratio = found["job.bin mimalloc"]["time-ratio"]
    rows = {(row["measure"], row["allocator"]): row for row in csv.DictReader(io.StringIO(run_here("compare", results, "--csv", cwd=tmp_path).stdout))}
    assert ratio["value"] == pytest.approx(float(rows["time", "mimalloc"]["ratio"]), rel=1e-4)
    assert ratio["lower_value"] <= ratio["value"] <= ratio["upper_value"]
    assert not any(name.endswith("-ratio") for name in found["job.bin glibc"]), "the baseline has no ratio to itself"


@pytest.mark.thorough
def test_one_round_has_no_interval(tmp_path: Path) -> None:
    results = _results(tmp_path, 1)
    assert all(set(metric) == {"value"} for measures in json.loads(_fed(results, "bencher")).values() for metric in measures.values())
    entries = json.loads(_fed(results, "github-action"))
    assert all(set(entry) == {"name", "unit", "value"} for entry in entries)
    timed = json.loads(_fed(results, "hyperfine"))
    jsonschema.validate(timed, HYPERFINE)
    assert [result["stddev"] for result in timed["results"]] == [None, None]


@pytest.mark.thorough
def test_github_action(tmp_path: Path) -> None:
    results = _results(tmp_path)
    entries = json.loads(_fed(results, "github-action"))
    jsonschema.validate(entries, GITHUB_ACTION)
    by_name = {entry["name"]: entry for entry in entries}
    assert len(by_name) == len(entries), "a chart for each"
    time = by_name["job.bin mimalloc: time in malloc"]
    assert (time["unit"], time["value"]) == ("ns", median(_values(results, "mimalloc", "alloc_time_ns")))
    assert time["range"].startswith("95 %: ") and "of glibc: faster" in time["extra"]
    assert by_name["job.bin glibc: peak RSS"]["unit"] == "bytes" and "extra" not in by_name["job.bin glibc: peak RSS"]


def test_hyperfine(tmp_path: Path) -> None:
    results = _results(tmp_path)
    found = json.loads(_fed(results, "hyperfine"))
    jsonschema.validate(found, HYPERFINE)
    for result in found["results"]:
        times = [ns / 1e9 for ns in _values(results, result["parameters"]["allocator"], "alloc_time_ns")]
        assert sorted(result["times"]) == sorted(times), "real samples, in seconds"
        for key, expected in (("mean", mean(times)), ("stddev", stdev(times)), ("median", median(times)), ("min", min(times)), ("max", max(times))):
            assert result[key] == pytest.approx(expected, rel=1e-9)
    assert {result["command"] for result in found["results"]} == {"job.bin glibc", "job.bin mimalloc"}


@pytest.mark.thorough
def test_hyperfine_has_the_same_keys(tmp_path: Path) -> None:
    """The program itself, where it is installed. Its user and system time, of processes, are not measured here."""
    hyperfine = shutil.which("hyperfine")
    if not hyperfine:
        pytest.skip("hyperfine is not installed")
    subprocess.run([hyperfine, "--runs", "2", "--export-json", tmp_path / "real.json", "-P", "n", "1", "2", "true {n}"], check=True, timeout=60, capture_output=True)
    real = json.loads((tmp_path / "real.json").read_text())["results"][0]
    own = json.loads(_fed(_results(tmp_path), "hyperfine"))["results"][0]
    assert set(own) == set(real) - {"user", "system", "memory_usage_byte"}
    assert {key: type(value) for key, value in own.items()} == {key: type(real[key]) for key in own}


def _tracks(data: bytes) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """The counters by the names of the track and the groups that it is in, read by Perfetto's own messages."""
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = messages.Trace.FromString(data)
    assert trace.SerializeToString() == data
    names: dict[int, tuple[str, ...]] = {}
    counters: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    assert trace.packet[0].sequence_flags == messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1 and not list(_unknown(packet))
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            names[track.uuid] = (*names.get(track.parent_uuid, ()), track.name)
            assert not track.HasField("counter") or track.counter.unit == messages.CounterDescriptor.UNIT_SIZE_BYTES
        else:
            assert packet.track_event.type == messages.TrackEvent.TYPE_COUNTER and packet.HasField("timestamp")
            counters[names[packet.track_event.track_uuid]].append((packet.timestamp, packet.track_event.counter_value))
    return counters


def _unknown(message: Any) -> list[Any]:
    """Fields of numbers that Perfetto does not have, in the message and those in it."""
    unknown_fields = pytest.importorskip("google.protobuf.unknown_fields")
    inner = [value for field, value in message.ListFields() if field.message_type and not field.is_repeated]
    return [*unknown_fields.UnknownFieldSet(message), *(field for value in inner for field in _unknown(value))]


@pytest.mark.thorough
def test_perfetto(tmp_path: Path) -> None:
    results = _results(tmp_path, 3)
    counters = _tracks(_fed(results, "perfetto"))
    assert set(counters) == {("job.bin", name, curve) for name in ("glibc", "mimalloc") for curve in ("RSS", "live")}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for name in ("glibc", "mimalloc"):
        runs = sorted((row for row in rows if row["allocator"]["name"] == name and row["pass"] == "memory"), key=lambda row: row["rss_peak_bytes"])
        curve = runs[1]["timeline"]
        assert counters["job.bin", name, "RSS"] == list(zip(curve["time_ns"], curve["rss_bytes"], strict=True)), "the run of the median peak"
        assert counters["job.bin", name, "live"] == list(zip(curve["time_ns"], curve["live_bytes"], strict=True))


@pytest.fixture(scope="module", name="replayed")
def _replayed(heaptape_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results and snapshots of a real trace."""
    folder, replay = tmp_path_factory.mktemp("replayed"), heaptape_binary.with_name("replay")
    for words in (["--rounds", "1", "-o", folder / "r.jsonl"], ["--snapshots", folder / "s"]):
        subprocess.run([replay, "-q", "--alloc", "glibc", *words, ROOT / "traces" / "sqlite3-small.bin"], timeout=120, check=True, capture_output=True)
    return folder


def test_perfetto_with_snapshots(replayed: Path) -> None:
    counters = _tracks(_fed(replayed / "r.jsonl", "perfetto", "--snapshots", replayed / "s"))
    along = accounts_along(read_snapshots(replayed / "s" / "glibc.snapshots"))
    for title, account in (("holes", "holes"), ("free pages", "free_pages"), ("tables", "tables")):
        assert counters["sqlite3-small.bin", "glibc", title] == list(zip(along["time_ns"], along[account], strict=True))
    assert {name for _, group, name in counters if group == "recorded"} == {"RSS", "RSS of the heap"}
    assert "holes" not in {name for *_, name in _tracks(_fed(replayed / "r.jsonl", "perfetto"))}


@pytest.mark.thorough
def test_experiments_are_told_apart(tmp_path: Path) -> None:
    """Of one trace replayed in two ways, and of two traces of one name."""
    rows = _rows(2)
    ways = [row | {"touch": touch} for row in rows for touch in ("recorded", "all")]
    others = [row | {"trace": row["trace"] | {"path": f"/{folder}/job.bin", "sha256": 64 * folder}} for row in rows for folder in ("a", "b")]
    for number, mixed in enumerate((ways, others)):
        found = json.loads(_fed(results_factory.write(tmp_path / f"{number}.jsonl", mixed), "bencher"))
        assert len(found) == 4
        if number == 0:
            assert set(found) == {f"job.bin{way} {name}" for way in ("", ", touch all") for name in ("glibc", "mimalloc")}


def test_a_gate_beside_it(tmp_path: Path) -> None:
    results = _results(tmp_path)
    assert _fed(results, "bencher", "--fail-if", "rss_peak>1.05", "--fail-if", "time>1.05", status=4)


@pytest.mark.thorough
def test_failed_runs_are_named(tmp_path: Path) -> None:
    rows = _rows(3)
    for row in rows:
        if row["allocator"]["name"] == "mimalloc":
            row["failures"] = 1
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    done = run_here("compare", results, "--to", "bencher", "-o", tmp_path / "out.json", cwd=tmp_path)
    assert done.returncode == 0 and "heaptape compare: warning: job.bin: 6 of 6 runs of mimalloc failed" in done.stderr
    assert set(json.loads((tmp_path / "out.json").read_text())) == {"job.bin glibc"}


@pytest.mark.parametrize(("more", "expected"), [
    (["--to", "bencher"], "--to, -o: expected both"), (["-o", "x"], "--to, -o: expected both"),
    (["--to", "bencher", "-o", "x", "--json"], "--json: expected no --to with it"), (["--to", "bencher", "-o", "r.jsonl"], "would overwrite"),
    (["--to", "bencher", "-o", "x", "--snapshots", "."], "expected --to perfetto"),
    (["--to", "perfetto", "-o", "x", "--snapshots", "."], "expected files that heaptape replay --snapshots wrote"),
    (["--to", "influx", "-o", "x"], "--to influx: expected one of bencher, ")])
def test_usage(tmp_path: Path, more: list[str], expected: str) -> None:
    _results(tmp_path, 1)
    before = (tmp_path / "r.jsonl").read_bytes()
    done = run_here("compare", "r.jsonl", *more, cwd=tmp_path)
    assert done.returncode == 2 and expected in done.stderr, done.stderr
    assert not (tmp_path / "x").exists() and (tmp_path / "r.jsonl").read_bytes() == before


@pytest.mark.thorough
@pytest.mark.parametrize(("form", "missing", "expected"), [
    ("hyperfine", "time", "expected runs of the time pass"), ("perfetto", "memory", "expected runs of the memory pass with curves")])
def test_what_the_results_lack(tmp_path: Path, form: str, missing: str, expected: str) -> None:
    rows = [row for row in _rows(2) if row["pass"] != missing]
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    done = run_here("compare", results, "--to", form, "-o", tmp_path / "x", cwd=tmp_path)
    assert done.returncode == 2 and expected in done.stderr and not (tmp_path / "x").exists()
