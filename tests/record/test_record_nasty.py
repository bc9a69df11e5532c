# SPDX-License-Identifier: Apache-2.0
"""Programs that break recorders: each must behave as it does alone, and be recorded whole."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from pathlib import Path

import pytest

from safety_checks import recorded_tallies
from quick_tier import quick
from tool_runner import (MARKER_BEGIN, Outcome, Recording, Tools, by_birth, is_forked, logs_in,
                         outcome_of, parent_pid, read_tallies, run)

# name, and how many process images it consists of: each image has a log of its own
TARGETS = {
    "fork_children": 3,
    "exec_self": 4,
    "vfork_spawn": 3,
    "tls_destructors": 1,
    "thread_churn": 1,
    "early_late": 1,
    "close_all_fds": 1,
    "exit_quick": 1,
    "setlocale_first": 1,
    "thread_forks_first": 9,
}
SEQUENCE_OFFSET, CHUNKS_END_OFFSET = 28, 112  # docs/reference/raw-log-format.md


def command_of(tools: Tools, name: str, counts: Path) -> list[Path]:
    command = [tools.target(name), counts]
    if name == "early_late":
        command.append(tools.targets / "early_late_plugin.so")
    return command


@pytest.mark.parametrize("name", TARGETS)
def test_preload(tools: Tools, tmp_path: Path, name: str) -> None:
    alone = outcome_of(run(command_of(tools, name, tmp_path / "alone")))
    assert alone.status not in (0, 1, 99), alone.stderr
    recording = tools.preload(command_of(tools, name, tmp_path / "counts"), tmp_path / "logs")
    assert recording.outcome == alone
    assert len(recording.logs) == TARGETS[name]
    counted = read_tallies(tmp_path / "counts")
    assert recorded_tallies(tools, recording.logs, tmp_path) == counted
    assert counted == read_tallies(tmp_path / "alone")


@pytest.mark.parametrize("name", quick(["exec_self", "fork_children", "exit_quick"], TARGETS))
def test_record_verb(tools: Tools, tmp_path: Path, name: str) -> None:
    """record passes on stdout and exit status; its own talk is on stderr, after the program's."""
    alone = outcome_of(run(command_of(tools, name, tmp_path / "alone")))
    recording = tools.record(command_of(tools, name, tmp_path / "counts"), tmp_path / "logs")
    assert recording.outcome.status == alone.status
    assert recording.outcome.stdout == alone.stdout
    assert recording.outcome.stderr.startswith(alone.stderr)
    assert b"heaptape convert" in recording.outcome.stderr  # the next command to run
    assert len(recording.logs) == TARGETS[name]
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")


@pytest.mark.thorough
def test_blocks_inherited_over_fork(tools: Tools, tmp_path: Path) -> None:
    """The child frees 400 blocks that it inherited, the grandchild 100 of them, nothing else:
    foreign without the parent's log. With it both are born with all that was live."""
    recording = tools.preload(command_of(tools, "fork_children", tmp_path / "counts"),
                              tmp_path / "logs")
    foreign, inherited = [], []
    for log in recording.logs:
        alone = tools.info(tools.convert(log, tmp_path / "alone.bin", "--no-parent"))
        whole = tools.convert_clean(log, tmp_path / f"{log.stem}.bin")
        assert (whole["parent_pid"] is not None) == is_forked(log)
        assert alone["events"] == whole["events"] and alone["ops"] == whole["ops"]
        assert alone["inherited_objects"] == alone["inherited_bytes"] == 0
        lines = tools.dump(tmp_path / f"{log.stem}.bin")
        births = [line for line in lines if " inherit(" in line]
        assert lines[:len(births)] == births and len(births) == whole["inherited_objects"]
        assert sum(int(line.split("(")[1].split(")")[0]) for line in births) \
            == whole["inherited_bytes"]
        foreign.append(alone["foreign_frees"])
        inherited.append(sum("inherit(7100) = #" in line for line in births))
    assert sorted(foreign) == [0, 100, 400]
    # The child has resized and freed 100 of the 400 before it forks.
    assert sorted(zip(foreign, inherited, strict=True)) == [(0, 0), (100, 300), (400, 400)]


@pytest.mark.thorough
@pytest.mark.parametrize("more", [[], ["--threads", "1"]])
def test_replay_of_inherited_blocks(tools: Tools, tmp_path: Path, more: list[str]) -> None:
    recording = tools.preload(command_of(tools, "fork_children", tmp_path / "counts"),
                              tmp_path / "logs")
    for log in filter(is_forked, recording.logs):
        info = tools.convert_clean(log, tmp_path / f"{log.stem}.bin")
        rows = tools.replay(tmp_path / f"{log.stem}.bin", "null,glibc,jemalloc,tcmalloc,mimalloc",
                            tmp_path / f"{log.stem}.jsonl", *more)
        assert {row["allocator"]["name"] for row in rows} >= {"null", "glibc"}
        for row in rows:
            assert not row["failures"], row["allocator"]["name"]
            assert row["trace"]["events"] == info["events"]
            assert row["trace"]["inherited_objects"] == info["inherited_objects"] > 0
            assert row["trace"]["forked"] is info["forked"] is True


@pytest.mark.thorough
def test_advice_about_one_of_several_processes(tools: Tools, tmp_path: Path) -> None:
    """A forked process, also without its parent's log; a slice alone is not one, though it has blocks of before."""
    words = b"(one of several processes; shared pages are not counted)"
    recording = tools.preload(command_of(tools, "fork_children", tmp_path / "counts"), tmp_path / "logs")
    for log in recording.logs:
        trace, alone, cut = (tmp_path / f"{log.stem}{name}.bin" for name in ("", "-alone", "-cut"))
        tools.convert_clean(log, trace)
        tools.convert(log, alone, "--no-parent")
        tools.succeed([tools.heaptape, "slice", "--from-event", "200", trace, "-o", cut])
        for path in (trace, alone, cut):
            assert tools.info(path)["forked"] == is_forked(log)
            done = tools.succeed([tools.replay_program, "--alloc", "glibc,bump", "--rounds", "1", "--pass", "memory", path])
            assert (words in done.stdout) == is_forked(log), done.stdout
    assert tools.info(cut)["inherited_objects"] > 0


@pytest.mark.thorough
def test_parent_log_elsewhere(tools: Tools, tmp_path: Path) -> None:
    """A parent's log that is not beside its child's is missed aloud, and can be named."""
    recording = tools.preload(command_of(tools, "fork_children", tmp_path / "counts"),
                              tmp_path / "logs")
    parent = next(log for log in recording.logs if not is_forked(log))
    child = next(log for log in recording.logs if f".{parent_pid(log)}.mraw" in parent.name)
    other = next(log for log in recording.logs if log not in (parent, child))
    moved = parent.rename(tmp_path / "moved")
    warning = warnings_of(tools, child, tmp_path)
    assert warning.count("\n") == 1 and "--parent" in warning and "--no-parent" in warning
    assert tools.info(tmp_path / "t.bin")["foreign_frees"] == 400
    assert not warnings_of(tools, child, tmp_path, "--no-parent")
    assert not warnings_of(tools, child, tmp_path, "--parent", moved)
    assert tools.info(tmp_path / "t.bin")["foreign_frees"] == 0
    for arguments, status in ((["--parent", other], 3), (["--parent", child], 3),
                              (["--parent", moved, "--no-parent"], 2)):
        done = run([tools.heaptape, "convert", child, "-o", tmp_path / "no.bin", *arguments])
        assert done.returncode == status, done.stderr
        assert not (tmp_path / "no.bin").exists()


def warnings_of(tools: Tools, log: Path, folder: Path, *more: str | Path) -> str:
    """The warnings of a conversion."""
    done = tools.succeed([tools.heaptape, "convert", log, "-o", folder / "t.bin", *more])
    return "".join(line for line in done.stderr.decode().splitlines(keepends=True)
                   if "warning" in line)


def written_part(log: Path) -> bytes:
    """A log that no exit tidied up is a sparse file of 256 GiB; its header says what of it counts."""
    with log.open("rb") as file:
        header = file.read(4096)
        file.seek(0)
        return file.read(struct.unpack_from("<Q", header, CHUNKS_END_OFFSET)[0])


def test_nothing_is_overwritten(tools: Tools, tmp_path: Path) -> None:
    """Names are never reused: logs of earlier runs, and files that bear a log's name, stay."""
    def digests(recording: Recording) -> dict[Path, str]:
        return {log: hashlib.sha256(written_part(log)).hexdigest() for log in recording.logs}

    logs = tmp_path / "logs"
    before = digests(tools.preload(command_of(tools, "exec_self", tmp_path / "a"), logs))
    after = digests(tools.preload(command_of(tools, "exec_self", tmp_path / "b"), logs))
    assert len(before) == 4 and len(after) == 8
    assert {log: after[log] for log in before} == before


def numbered(logs: list[Path]) -> list[tuple[int, int]]:
    """Number and time of the start of each, by number: docs/reference/raw-log-format.md."""
    found = []
    for log in logs:
        with log.open("rb") as file:
            found.append(struct.unpack_from("<I16xQ", file.read(64), SEQUENCE_OFFSET))
    return sorted(found)


def test_chain_of_execs(tools: Tools, tmp_path: Path) -> None:
    """The images of a process are numbered in their order."""
    recording = tools.record([tools.target("exec_self"), tmp_path / "counts", "60"], tmp_path / "logs", "-q")
    assert recording.outcome.status == 6, recording.outcome
    numbers, starts = zip(*numbered(recording.logs), strict=True)
    assert numbers == tuple(range(61))
    assert starts == tuple(sorted(starts))


def test_number_behind_many(tools: Tools, tmp_path: Path) -> None:
    """The next free number is found among thousands, and where one is missing nothing is overwritten."""
    logs = tmp_path / "logs"
    logs.mkdir()
    script = ("import os, sys\n"
              "for i in range(12000):\n"
              "    number = f'.{i}' if i else ''\n"
              "    if i != 700: open(f'{sys.argv[1]}/malloc-footprint.{os.getpid()}{number}.mraw', 'x').close()\n"
              "os.environ.update(LD_PRELOAD=sys.argv[2], MALLOC_WRAP_OUT=sys.argv[1])\n"
              "os.execv(sys.argv[3], sys.argv[3:])\n")
    done = run(["python3", "-c", script, logs, tools.shim, tools.target("exec_self"), tmp_path / "counts", "2"])
    assert done.returncode == 6, done.stderr
    made = [log for log in logs.iterdir() if log.stat().st_size]
    assert len(made) == 3 and len(list(logs.iterdir())) == 11_999 + 3
    numbers = [number for number, _ in numbered(made)]
    assert numbers in ([12_000, 12_001, 12_002], [700, 12_000, 12_001])


def test_logs_are_private_and_not_through_links(tools: Tools, tmp_path: Path) -> None:
    recording = tools.preload(command_of(tools, "exit_quick", tmp_path / "counts"),
                              tmp_path / "logs")
    assert recording.logs[0].stat().st_mode & 0o777 == 0o600


def test_big_blocks(tools: Tools, tmp_path: Path) -> None:
    command = [tools.target("big_blocks"), tmp_path / "expected.json"]
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == Outcome(15, b"", b"")
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    sizes = Counter(line.split()[1] for line in tools.dump(tmp_path / "t.bin"))
    assert sizes["malloc(1048576)"] == 32
    assert sizes["malloc(102400)"] == 20
    assert info["peak_live_bytes"] >= 2 * 1048576


def test_resident_pages_of_big_blocks(tools: Tools, tmp_path: Path) -> None:
    """How much of a large block the program touched, as the Python reader gives it."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    command = [tools.target("big_blocks"), tmp_path / "expected.json"]
    recording = tools.preload(command, tmp_path / "logs")
    expected = json.loads((tmp_path / "expected.json").read_text())
    lines = tools.dump(tools.convert(recording.logs[0], tmp_path / "t.bin"))
    with read_trace(tmp_path / "t.bin") as trace:
        rows = trace.residency.to_dict("records")
    pages: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        call = lines[row["birth_event"]].split()[1]
        pages.setdefault(call, []).append((row["pages_at_birth"], row["pages_at_end"]))
    # A block of a mapping of its own starts behind a header, on a page that malloc itself touches,
    # and may reach into one page more than its size says.
    fresh = expected["fresh"]
    found = pages[f"malloc({fresh['size']})"]
    assert len(found) == fresh["blocks"]
    assert all(before <= 1 and fresh["pages"] <= after <= fresh["pages"] + 1
               for before, after in found)
    # The second and later of these got memory that the first had touched.
    found = sorted(pages[f"malloc({expected['recycled']['size']})"])
    assert len(found) == expected["recycled"]["blocks"]
    assert sum(before >= expected["recycled"]["pages"] - 1 for before, _ in found) == len(found) - 1
    [(before, after)] = pages[f"malloc({expected['live']['size']})"]
    assert before <= 1 and expected["live"]["pages"] <= after <= expected["live"]["pages"] + 1


@pytest.mark.parametrize("end", ["_exit", "_Exit", "quick_exit"])
def test_resident_pages_at_a_sudden_end(tools: Tools, tmp_path: Path, end: str) -> None:
    """No destructor runs then."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    recording = tools.preload([tools.target("big_blocks"), tmp_path / "expected.json", end], tmp_path / "logs")
    assert recording.outcome == Outcome(15, b"", b"")
    live = json.loads((tmp_path / "expected.json").read_text())["live"]
    lines = tools.dump(tools.convert(recording.logs[0], tmp_path / "t.bin"))
    with read_trace(tmp_path / "t.bin") as trace:
        [after] = [row["pages_at_end"] for row in trace.residency.to_dict("records")
                   if lines[row["birth_event"]].split()[1] == f"malloc({live['size']})"]
    assert live["pages"] <= after <= live["pages"] + 1


def test_memory_of_its_own_is_sampled(tools: Tools, tmp_path: Path) -> None:
    """64 MiB mapped and 32 MiB of heap, all of it touched, show up in the recorded RSS."""
    recording = tools.preload([tools.target("mmap_own"), "64", "32"], tmp_path / "logs")
    assert recording.outcome == Outcome(17, b"", b"")
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    assert 96 << 20 <= info["recorded_rss_peak_bytes"] < 110 << 20
    assert 0 < info["recorded_cpu_ns"] < info["duration_ns"] * 4
    assert info["peak_live_bytes"] >= 32 << 20


@pytest.mark.thorough
def test_full_disk(tools: Tools, tmp_path: Path) -> None:
    """On a full disk the program goes on as if nothing were; what was recorded until then is good."""
    disk = tmp_path / "disk"
    kept = tmp_path / "kept"
    disk.mkdir()
    kept.mkdir()
    mount = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=2m none \"$0\" && exec \"$@\"", disk]
    try:
        if run([*mount, "true"]).returncode:
            pytest.skip("this machine lets nobody mount a small file system")
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    script = ('MALLOC_WRAP_OUT="$1" LD_PRELOAD="$2" "$3" "$4" 1000000; status=$?; '
              'cp --sparse=always "$1"/*.mraw "$5"; exit $status')
    done = run([*mount, "sh", "-c", script, "sh", disk, tools.shim, tools.target("calls_printed"),
                tmp_path / "printed", kept])
    assert outcome_of(done) == Outcome(0, b"", b"")
    assert len((tmp_path / "printed").read_text().splitlines()) >= 1_000_000
    [log] = logs_in(kept)
    assert log.stat().st_blocks * 512 <= 2 << 20
    tools.convert(log, tmp_path / "t.bin")
    info = tools.info(tmp_path / "t.bin")
    assert info["anomalies"] == 0 and info["foreign_frees"] == 0
    assert 50_000 < info["events"] < 1_000_000
    first_lines = (tmp_path / "printed").read_text().splitlines()[:20_000]
    lines = [line.partition(" ")[2] for line in tools.dump(tmp_path / "t.bin")]
    start = next(i for i, line in enumerate(lines) if line.startswith(MARKER_BEGIN)) + 2
    assert list(by_birth(lines[start:start + 20_000])) == first_lines


@pytest.mark.thorough
def test_own_tools_do_not_record_themselves(tools: Tools, tmp_path: Path) -> None:
    """LD_PRELOAD set in a shell reaches the tools that come next; they must leave no logs."""
    logs = tmp_path / "logs"
    recording = tools.preload(command_of(tools, "exit_quick", tmp_path / "counts"), logs)
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    environment = {"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)}
    for command in (["info", trace], ["dump", trace], ["convert", recording.logs[0], "-o", trace]):
        tools.succeed([tools.heaptape, *command], env=environment)
    tools.succeed([tools.replay_program, "--alloc", "glibc", "--rounds", "1", trace], env=environment)
    assert logs_in(logs) == recording.logs


def test_nothing_changes_where_nothing_can_be_recorded(tools: Tools, tmp_path: Path) -> None:
    """No folder to write into: the program and its children run as ever, without a message."""
    script = ["bash", "-c", "x=$(echo hi); echo $x; exit 3"]
    done = run(script, env={"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(tmp_path / "none")})
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hi\n", b"")


def test_a_long_command_line_leaves_room_for_the_rest(tools: Tools, tmp_path: Path) -> None:
    recording = tools.record(["bash", "-c", "exit 0", " " * 4000], tmp_path / "logs")
    assert recording.outcome.status == 0, recording.outcome.stderr
    info = tools.info(tools.convert(recording.logs[0], tmp_path / "t.bin"))
    assert info["recorded_allocator"] == "glibc"
    assert info["command"].startswith("bash -c exit\\x200")


def head_of(log: Path) -> bytes:
    """The first page only: the log of a program that ended by _exit is a sparse file of its whole reserve."""
    with log.open("rb") as source:
        return source.read(4096)


def test_a_trace_never_overwrites_its_raw_log(tools: Tools, tmp_path: Path) -> None:
    log = tools.preload([tools.target("exit_quick"), tmp_path / "counts"], tmp_path / "logs").logs[0]
    before = head_of(log)
    done = run([tools.heaptape, "convert", log, "-o", log])
    assert done.returncode == 2 and b"overwrite" in done.stderr
    assert head_of(log) == before
