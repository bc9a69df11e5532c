#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the C programs with every compiler that is found, and compares what they do.

Each gcc and clang at -O2 and -O3, with and without optimization across files, is a row. A row is built without a
warning, passes its unit tests, converts the golden logs to what they always became, refuses damaged files in the same
words, records a program, and reads the files that every other row wrote, those of earlier runs in the same folder too.
Prints a table; the exit status is 1 where a row failed. It takes minutes for each row. A difference is a bug of ours, such as a
struct read as another type: hash structs by format/trace/checksum.h, copy them by memcpy.

    .venv/bin/python tests/compilers/matrix.py [--only gcc-12,clang-19] [--levels O2,O3] [--lto both] [-o FOLDER]
    apt-get install --no-install-recommends gcc-11 clang-14 lld-14 llvm-14      # and others; LTO with clang takes lld

With -o the files stay in FOLDER/files; a run on another distribution with the same folder reads them too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
GOLDEN = TREE / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))

import refresh  # noqa: E402  which says how damaged files are judged

COMMAND_MINUTES = 60
# Level 2 also checks pointers that are converted in one place and used in another.
FLAGS = "-Wstrict-aliasing=2"
WRITTEN = ("own.mraw", "own.bin", "golden.bin")  # by each row, to be read by all


@dataclass
class Row:
    compiler: Path
    level: str
    lto: bool
    release: str  # of the distribution: files of several machines may meet in one folder
    folder: Path
    cells: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.release}-{self.compiler.name}-{self.level}{'-lto' if self.lto else ''}"

    @property
    def build(self) -> Path:
        return self.folder / "build" / self.name

    @property
    def files(self) -> Path:
        return self.folder / "files" / self.name

    def fail(self, cell: str, why: str) -> None:
        self.cells[cell] = "FAILED"
        self.wrong.append(why)


def run(command: list[str | Path], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False, timeout=60 * COMMAND_MINUTES, **more)


def compilers() -> list[Path]:
    """gcc-N and clang-N of the search path, and gcc and clang where those are still others."""
    found: dict[Path, Path] = {}
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":") if folder]
    for pattern in (r"gcc-\d+", r"clang-\d+", r"gcc", r"clang"):
        for folder in folders:
            names = sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)) if folder.is_dir() else []
            for path in names:
                if re.fullmatch(pattern, path.name) and os.access(path, os.X_OK):
                    found.setdefault(path.resolve(), path)
    return list(found.values())


def release() -> str:
    facts = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return (facts.get("ID", "linux") + facts.get("VERSION_ID", "")).replace('"', "").replace(".", "")


def linker_flags(row: Row) -> str:
    """What clang's objects for optimization across files need: the linker of the same release."""
    if not row.lto or "clang" not in row.compiler.name:
        return ""
    return "-fuse-ld=lld"


def cxx_compiler(row: Row) -> list[str]:
    """clang's own, where it is there: another compiler need not know clang's linker."""
    own = row.compiler.with_name(row.compiler.name.replace("clang", "clang++"))
    return [f"-DCMAKE_CXX_COMPILER={own}"] if own != row.compiler and own.exists() else []


def build(row: Row) -> bool:
    shutil.rmtree(row.build, ignore_errors=True)
    configured = run(["cmake", "-S", TREE, "-B", row.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                      f"-DCMAKE_C_COMPILER={row.compiler}", *cxx_compiler(row), f"-DCMAKE_C_FLAGS_RELEASE=-{row.level}",
                      f"-DCMAKE_C_FLAGS={FLAGS}", f"-DCMAKE_EXE_LINKER_FLAGS={linker_flags(row)}",
                      f"-DCMAKE_SHARED_LINKER_FLAGS={linker_flags(row)}", f"-DHEAPTAPE_LTO={'ON' if row.lto else 'OFF'}"])
    built = configured
    if configured.returncode == 0:
        built = run(["cmake", "--build", row.build, "--target", "heaptape", "malloc_wrap", "replay-null", "unit_tests"])
    row.build.mkdir(parents=True, exist_ok=True)
    (row.build / "build.log").write_text(configured.stdout + built.stdout)
    warnings = sorted(set(re.findall(r"^.*warning: .*$", built.stdout, re.MULTILINE)))
    row.cells["warnings"] = str(len(warnings))
    row.wrong += warnings
    if built.returncode:
        row.fail("build", f"not built: {row.build}/build.log")
        return False
    row.cells["build"] = "yes"
    return True


def unit_tests(row: Row, jobs: int) -> None:
    """What fails is run once more, alone: some have deadlines, which a busy machine misses. A bug does not go away."""
    ctest: list[str | Path] = ["ctest", "--test-dir", row.build, "--output-on-failure"]
    done = run([*ctest, "-j", str(jobs)])
    log, total = done.stdout, re.search(r"tests failed out of (\d+)", done.stdout)
    if done.returncode and total:
        done = run([*ctest, "--rerun-failed"])
        log += done.stdout
    (row.build / "ctest.log").write_text(log)
    failed = re.findall(r"^\s*\d+ - (\S+) \(", done.stdout, re.MULTILINE) if done.returncode else []
    row.cells["unit tests"] = f"{int(total[1]) - len(failed)}/{total[1]}" if total else "none"
    if done.returncode or not total or total[1] == "0":
        row.fail("unit tests", f"unit tests: {' '.join(failed) or 'none ran'}: {row.build}/ctest.log")


def dump(row: Row, trace: Path, *options: str) -> str:
    """What the row prints of a trace: a digest, or what is wrong."""
    done = run([row.build / "heaptape", "dump", *options, trace])
    return hashlib.sha256(done.stdout.encode()).hexdigest() if done.returncode == 0 else done.stdout.strip()


def convert(row: Row, source: Path, trace: Path) -> str:
    """Nothing, or what is wrong."""
    trace.unlink(missing_ok=True)
    done = run([row.build / "heaptape", "convert", "-q", "-o", trace, source])
    return "" if done.returncode == 0 else done.stdout.strip() or f"status {done.returncode}"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def golden(row: Row) -> None:
    """The kept logs and other recorders' traces become the same traces as ever; damage gives the same messages."""
    wrong = []
    trace = row.files / "golden.bin"
    wrong.append(convert(row, GOLDEN / "sqlite3.mraw", trace))
    for source in (trace, GOLDEN / "sqlite3.bin"):
        if dump(row, source) != digest(GOLDEN / "sqlite3.dump"):
            wrong.append(f"{source.name}: another dump than sqlite3.dump")
    imported = row.build / "imported.bin"
    imports = sorted(path for path in (GOLDEN / "imports").iterdir() if path.suffix != ".dump")
    for source in imports:
        said = convert(row, source, imported)
        if said or dump(row, imported, "--no-time") != digest(source.with_suffix(".dump")):
            wrong.append(f"{source.name}: {said or 'another dump than ever'}")
    for name in sorted(refresh.damaged()):
        status, said = refresh.verdict(row.build, name, row.build / "never.bin")
        if (status, said) != refresh.messages()[name]:
            wrong.append(f"{name}: {status} {said.strip()}")
    row.cells["golden"] = f"{2 + len(imports) + len(refresh.damaged())}"
    wrong = [line for line in wrong if line]
    if wrong:
        row.fail("golden", "; ".join(wrong))


def record(row: Row) -> None:
    """A log of this row's own recorder, and the trace that it makes of it."""
    folder = row.build / "recorded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    done = run([row.build / "heaptape", "record", "-q", "-o", folder, "--", "/bin/ls", "-lR", GOLDEN],
               env={**os.environ, "LC_ALL": "C"})
    logs = list(folder.glob("*.mraw"))
    if done.returncode or len(logs) != 1:
        row.fail("records", f"a recording: {done.stdout.strip()[-200:]}")
        return
    shutil.copy(logs[0], row.files / "own.mraw")
    said = convert(row, row.files / "own.mraw", row.files / "own.bin")
    if said:
        row.fail("records", said)
        return
    row.cells["records"] = "yes"


def write_expected(row: Row) -> None:
    """Digests of what the row itself reads in its files: what every other must read there."""
    for name in ("own.bin", "golden.bin"):
        if (row.files / name).exists():
            (row.files / f"{name}.expected").write_text(dump(row, row.files / name))


def read_others(row: Row, same_tree: set[str]) -> None:
    """Every row's log holds the same calls here as there, and every row's trace reads alike. Those of this run, of the same
    sources and the same zstd, convert to the same bytes besides."""
    wrong, files = [], 0
    trace = row.build / "others.bin"
    for other in sorted(path for path in row.files.parent.iterdir() if path.is_dir()):
        for name in WRITTEN:
            if not (other / name).exists():
                continue
            files += 1
            source, said = other / name, ""
            expected = (other / f"{'own.bin' if name == 'own.mraw' else name}.expected").read_text()
            if source.suffix == ".mraw":
                said, source = convert(row, source, trace), trace
            if said or dump(row, source) != expected:
                wrong.append(f"{other.name}/{name}: {said or 'reads otherwise than its writer'}")
            elif name == "own.mraw" and other.name in same_tree and digest(trace) != digest(other / "own.bin"):
                wrong.append(f"{other.name}/{name}: converted to other bytes")
    row.cells["files read"] = str(files)
    if wrong or not files:
        row.fail("files read", "; ".join(wrong) or "none")


def print_table(rows: list[Row]) -> None:
    heads = ["build", "warnings", "unit tests", "golden", "records", "files read"]
    lines = [["row", *heads, ""]]
    lines += [[row.name, *(row.cells.get(head, "-") for head in heads), "FAILED" if row.wrong else "ok"] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for line in row.wrong:
            print(f"{row.name}: {line}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES", help="these compilers, by name: gcc-12,clang-19")
    parser.add_argument("--levels", default="O2,O3", help="of optimization (default O2,O3)")
    parser.add_argument("--lto", choices=["on", "off", "both"], default="both", help="across files (default both)")
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, default=TREE / "build-compilers",
                        help="builds and the files written (default build-compilers)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="unit tests at once")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    chosen = compilers()
    if options.only:
        names = options.only.split(",")
        missing = set(names) - {path.name for path in chosen}
        if missing:
            print(f"matrix.py: not here: {' '.join(sorted(missing))}", file=sys.stderr)
            return 2
        chosen = [path for path in chosen if path.name in names]
    lto = {"on": [True], "off": [False], "both": [False, True]}[options.lto]
    rows = [Row(compiler, level, across, release(), options.output.resolve())
            for compiler in chosen for level in options.levels.split(",") for across in lto]
    for row in rows:
        print(f"matrix.py: {row.name}", file=sys.stderr, flush=True)
        row.files.mkdir(parents=True, exist_ok=True)
        if build(row):
            unit_tests(row, options.jobs)
            golden(row)
            record(row)
            write_expected(row)
    for row in rows:
        if "build" in row.cells and row.cells["build"] == "yes":
            read_others(row, {other.name for other in rows})
    print_table(rows)
    return 1 if not rows or any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
