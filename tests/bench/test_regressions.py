# SPDX-License-Identifier: Apache-2.0
"""bench/regressions: which release is dated by given verdicts, what regressions.toml lists, and one scan of releases by cargo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tool_runner import Tools, clean_environment

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.regressions.builds import Failed, Release, check_release, decoded, read_release  # noqa: E402
from bench.regressions.dating import Dated, date, run_real  # noqa: E402
from bench.regressions.scan import LIST, Row, passes, table  # noqa: E402
from heaptape.results.conditions import parse_condition  # noqa: E402

LISTED = tomllib.loads(LIST.read_text())
HOLDS, REFUTED, UNDECIDED = "holds", "refuted", "undecided"


@pytest.mark.parametrize(("outcomes", "expected"), [
    ([], None),
    ([REFUTED, REFUTED], None),
    ([UNDECIDED], None),
    ([HOLDS], Dated("v0", "v1", ())),
    ([REFUTED, HOLDS, HOLDS], Dated("v1", "v2", ())),
    ([REFUTED, UNDECIDED, HOLDS], Dated("v1", "v3", ("v2",))),
    ([UNDECIDED, UNDECIDED, HOLDS], Dated("v0", "v3", ("v1", "v2"))),
    ([UNDECIDED, REFUTED, HOLDS], Dated("v2", "v3", ())),
    ([HOLDS, REFUTED], Dated("v0", "v1", ())),
])
def test_the_first_bad_release(outcomes: list[str], expected: Dated | None) -> None:
    assert date("v0", [(f"v{i}", outcome) for i, outcome in enumerate(outcomes, start=1)]) == expected


@pytest.mark.parametrize(("said", "number"), [("206", "2.0.6"), ("3206", "3.2.6"), ("30302", "3.3.2"), ("20300", "2.3.0"), ("5.2.1", "5.2.1")])
def test_numbers_of_releases(said: str, number: str) -> None:
    assert decoded(said) == number


def test_a_crate_of_another_release_is_refused() -> None:
    release = read_release(LISTED["allocators"], "mimalloc", "2.0.6")
    check_release(release, "#define MI_MALLOC_VERSION 206   // major + 2 digits minor\n")
    for text, found in (("#define MI_MALLOC_VERSION 207\n", "2.0.7"), ("nothing\n", "none"), ("#define MI_MALLOC_VERSION 2070000\n", "")):
        with pytest.raises(Failed, match=f"found {found}"):
            check_release(release, text)
    with pytest.raises(Failed, match="expected it in"):
        read_release(LISTED["allocators"], "mimalloc", "9.9.9")


def test_what_is_listed() -> None:
    """Each release is of one crate and version, in order; conditions are replay's; each program is here."""
    for regression in LISTED["regressions"].values():
        releases = [read_release(LISTED["allocators"], regression["allocator"], number) for number in regression["releases"]]
        numbers = [tuple(int(part) for part in release.number.split(".")) for release in releases]
        assert len(releases) >= 5 and numbers == sorted(set(numbers))
        assert passes(parse_condition(regression["condition"])) and regression["real"] in ("peak", "end", "cpu", "faults")
        words = " ".join([regression["setup"], *regression["command"]])
        assert all((ROOT / "bench" / name).is_file() for name in re.findall(r"\$BENCH/(\S+)", words))


def test_a_table_has_a_row_for_each_release() -> None:
    """With the ratio to the release before, and the real program's figure where it was run."""
    def row(number: str, end: float, outcome: str, ratio: float) -> Row:
        release = Release("toy", number, "toy-sys", "1.0+5-g1", ".", "", {}, "make")
        values = {"rss_peak": 4e6, "rss_mean": 3e6, "rss_end": end, "time": 5e6, "instructions": 7e6, "faults": float("nan")}
        return Row(release, values, ratio, ratio * 0.9, ratio * 1.1, outcome)

    lines = table([row("1.0", 2e6, "baseline", 1), row("1.1", 3e6, HOLDS, 1.5)], parse_condition("rss_end>1.1"), {"1.0": 1.0})
    assert len({line.count("|") for line in lines}) == 1 and len(lines) == 4
    assert lines[3] == "| 1.1 | toy-sys 1.0+5 | 4.0 | 3.0 | 3.0 | 5.0 | 7.00 | 1.50 [1.35, 1.65] | 1.50 | holds | – |"


@pytest.mark.thorough
def test_figures_of_a_real_run(tools: Tools) -> None:
    """40 MB are held, then 5; a program that fails is an error."""
    script = ("import mmap, time\nm = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 40 << 20, 4096): m[at] = 1\n"
              "time.sleep(0.2); m.close(); b = bytearray(b'x' * (5 << 20)); time.sleep(0.2)")
    who = {"env": clean_environment(), "cwd": ROOT}
    library = tools.target("checking_malloc.so")
    run = run_real([sys.executable, "-c", script], library, who, 60)
    assert run.peak - run.end > 25 << 20 and run.end > 5 << 20 and run.faults > 40 << 8 and run.cpu > 0
    with pytest.raises(RuntimeError, match="status 3"):
        run_real([sys.executable, "-c", "raise SystemExit(3)"], library, who, 60)
    with pytest.raises(RuntimeError, match="more than 0 s"):
        run_real(["sleep", "20"], library, who, 0.1)


@pytest.mark.slow
@pytest.mark.skipif(not all(shutil.which(name) for name in ("cargo", "gcc", "git", "valgrind")), reason="cargo, gcc, git or valgrind is not installed")
def test_an_idle_service_under_six_releases_of_mimalloc(tools: Tools, tmp_path: Path) -> None:
    """Found by the scan and by bisect alike: RSS of an idle service rises with 3.2.6, and again with 3.3.0."""
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("transparent huge pages are off, on which the regression depends")
    cache = Path(os.environ.get("HEAPTAPE_RELEASES", tmp_path / "releases"))
    command = [sys.executable, ROOT / "bench" / "regressions" / "scan.py", "--build", tools.build, "--only", "mimalloc-idle", "--bisect", "--rounds", "5",
               "--cache", cache]
    done = subprocess.run(command, env=clean_environment() | {name: os.environ[name] for name in ("CARGO_HOME", "HOME") if name in os.environ},
                          capture_output=True, text=True, timeout=3600, check=False)
    if "cargo fetch" in done.stderr:
        pytest.skip("cargo cannot fetch crates here")
    assert done.returncode == 0, done.stderr
    assert "`rss_end>1.1`: in 3.2.6; 3.1.5 is the last good release" in done.stdout
    assert re.search(r"^first bad commit: [0-9a-f]+ mimalloc 3\.2\.6 \(", done.stdout, re.MULTILINE)
