#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records Rust programs that have an allocator linked in, and compares the recorded calls with those that were made.

    bench/compatibility/linked_in.py FOLDER [--build BUILD] [--only NAME,...] [--install] [--json FILE]

FOLDER/bin has the programs; --install builds those that are missing there (cargo, gcc and the network; hours on two
cores). They are built as their crates say, except: symbols stay, no link-time optimization, 16 codegen units. For each
program of linked_in.toml a row is printed:

- calls made: counted by callgrind, which simulates the program and counts the calls of every function. Calls that the
  allocator makes of itself do not count, nor questions for a block's size.
- recorded: those in the trace, less what a recording with --no-hooks has (libc's calls).
- same: output and exit status are those of the program alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 1800
# As record/linked/linked_functions.c has them, for Rust programs.
STANDARD = "malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|memalign|valloc|pvalloc"
ENTRIES = {"jemalloc": re.compile(rf"(_rjem_|je_)({STANDARD}|mallocx|rallocx|xallocx|dallocx|sdallocx)"),
           "mimalloc": re.compile(rf"mi_(heap_)?({STANDARD}|zalloc|mallocn|malloc_small|zalloc_small|malloc_aligned|zalloc_aligned"
                                  r"|calloc_aligned|realloc_aligned|rezalloc|rezalloc_aligned|reallocn|recalloc|expand|free_size"
                                  r"|free_size_aligned|free_aligned|new|new_nothrow|new_aligned|new_n)")}
OWN = {"jemalloc": re.compile(r"_?_?_rjem_|je_|jemalloc_"), "mimalloc": re.compile(r"_?mi_")}
SETTINGS = {"CARGO_PROFILE_RELEASE_STRIP": "none", "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16", "CARGO_PROFILE_RELEASE_DEBUG": "0"}


@dataclass
class Row:
    name: str
    version: str
    allocator: str
    hooked: int = 0  # functions
    made: int = 0
    recorded: int = 0
    foreign: int = 0
    anomalies: int = 0
    same: bool = False
    problem: str = ""

    @property
    def share(self) -> float:
        return self.recorded / self.made if self.made else 0.0


def run(command: Sequence[str | Path], folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=folder, env={**os.environ, **(env or {})}, capture_output=True, timeout=TIMEOUT_S,
                          check=False, stdin=subprocess.DEVNULL)


# ---- programs and inputs ----

def edited_sources(program: dict, folder: Path) -> Path:
    """A copy of the crate's sources, which cargo has fetched, with the edits."""
    name = program["cargo"][0]
    run(["cargo", "info", name], folder)
    registry = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry/src"
    [*_, source] = sorted(registry.glob(f"*/{name}-[0-9]*"))
    copy = folder / f"{name}-edited"
    shutil.copytree(source, copy, dirs_exist_ok=True)
    old, new = program["edits"]
    for path in [*copy.rglob("Cargo.toml"), *copy.rglob("main.rs")]:
        path.write_text(path.read_text().replace(old, new))
    return copy


def install(program: dict, folder: Path) -> str:
    """What went wrong; empty if nothing did."""
    words = program["cargo"]
    if "edits" in program:
        words = ["--path", str(edited_sources(program, folder)), *words[1:]]
    done = run(["cargo", "install", "--root", folder, *words], folder, {**SETTINGS, "CARGO_TARGET_DIR": str(folder / "target")})
    return done.stderr.decode(errors="replace").strip().splitlines()[-1] if done.returncode else ""


def make_inputs(folder: Path) -> None:
    shutil.copytree(REPOSITORY / "docs", folder / "text")
    rows = [{"name": f"name {i * 7919 % 1000}", "values": [i * k % 997 for k in range(20)]} for i in range(3000)]
    (folder / "data.json").write_text(json.dumps(rows))
    (folder / "lines.csv").write_text("".join(f"{i},{i * i % 1000003},word {i * 31 % 4096}\n" for i in range(60000)))
    code = (REPOSITORY / "record/reachable.c").read_text()
    (folder / "old.c").write_text(code)
    (folder / "new.c").write_text(code.replace("reach->level", "reach->degree").replace("static bool", "static int"))
    (folder / "page.md").write_text("".join((REPOSITORY / "docs/reference" / name).read_text()
                                            for name in ("commands.md", "safety.md", "trace-format.md")))
    shutil.copytree(REPOSITORY / "rust/heaptape-alloc", folder / "crate", ignore=shutil.ignore_patterns("target"))
    (folder / "objects").mkdir()
    for name, text in (("main", "int other(int); int main(void) { return other(3); }"), ("other", "int other(int n) { return n * n; }")):
        source = folder / f"objects/{name}.c"
        source.write_text(text)
        run(["gcc", "-c", "-o", f"objects/{name}.o", source], folder)
    for name in ("crt1.o", "crti.o", "crtn.o", "libc.a", "libm.a", "libcrypto.a", "libgcc.a", "libgcc_eh.a"):
        found = Path(run(["gcc", f"-print-file-name={name}"], folder).stdout.decode().strip())
        if found.is_absolute():
            shutil.copy(found, folder / "objects")


# ---- counting ----

def calls_by_callgrind(out: Path, allocator: str) -> int:
    """Calls of the allocator's functions from outside of it, of all processes. Names are written once, then as numbers; a
    recursion's have an ending."""
    calls: Counter[tuple[str, str]] = Counter()
    for part in out.parent.glob(f"{out.name}*"):
        names: dict[str, str] = {}
        function = callee = ""

        def name_of(text: str, names: dict[str, str] = names) -> str:
            number, _, name = text.partition(" ")
            return names.setdefault(number, name.partition("'")[0]) if name else names[number]

        for line in part.read_text(errors="replace").splitlines():
            key, equals, value = line.partition("=")
            if not equals:
                continue
            if key == "fn":
                function = name_of(value)
            elif key == "cfn":
                callee = name_of(value)
            elif key == "calls":
                calls[function, callee] += int(value.split()[0])
    return sum(count for (caller, callee), count in calls.items()
               if ENTRIES[allocator].fullmatch(callee) and not OWN[allocator].match(caller))


def recorded(heaptape: Path, command: list[str], folder: Path, logs: Path, *options: str) -> tuple[Counter[str], str, tuple[int, bytes]]:
    """Calls by kind over all processes, what was printed, and the program's status and output."""
    done = run([heaptape, "record", *options, "-o", logs, "--", *command], folder)
    total: Counter[str] = Counter()
    for log in logs.glob("*.mraw"):
        run([heaptape, "convert", log, "-o", "trace.bin"], folder)
        info = json.loads(run([heaptape, "info", "--json", "trace.bin"], folder).stdout)
        questions = info["ops"].get("malloc_usable_size", 0)
        total.update(calls=info["events"] - questions - info["ops"].get("drop", 0), foreign=info["foreign_frees"],
                     anomalies=info["anomalies"])
    return total, done.stderr.decode(errors="replace"), (done.returncode, done.stdout)


def measure(program: dict, heaptape: Path, binary: Path) -> Row:
    version = run([binary, "--version"], Path("/")).stdout.decode(errors="replace").split()
    row = Row(program["name"], next((word for word in version if word[0].isdigit()), "?"), program["allocator"])
    command = [str(binary), *program["command"][1:]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_inputs(folder)
        if "prepare" in program:
            run([binary, *program["prepare"]], folder)

        def made(status: int, output: bytes) -> tuple[int, str]:
            lines = sorted(output.splitlines()) if program.get("unordered") else [output]
            if "output" in program:
                lines.append((folder / program["output"]).read_bytes())
            return status, hashlib.sha256(b"\n".join(lines)).hexdigest()

        done = run(command, folder)
        alone = made(done.returncode, done.stdout)
        (folder / "hooked").mkdir()
        (folder / "left").mkdir()
        counts, said, outcome = recorded(heaptape, command, folder, folder / "hooked")
        row.same = made(*outcome) == alone
        hooks = re.search(r"hooks (\d+) functions of (\S+),", said)
        if not hooks:
            row.problem = next((line for line in said.splitlines() if "linked in" in line or "cannot" in line), "not hooked")
            return row
        row.hooked = int(hooks[1])
        libc = recorded(heaptape, command, folder, folder / "left", "--no-hooks")[0]
        row.foreign, row.anomalies = counts["foreign"], counts["anomalies"]
        row.recorded = counts["calls"] - libc["calls"]
        out = folder / "callgrind"
        run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}.%p", *command], folder)
        row.made = calls_by_callgrind(out, program["allocator"])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    parser.add_argument("--only", default="")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    programs = tomllib.loads((Path(__file__).parent / "linked_in.toml").read_text())["program"]
    wanted = [name for name in arguments.only.split(",") if name]
    rows = []
    print("| program | allocator | functions | calls made | recorded | share | output |\n| --- | --- | --- | --- | --- | --- | --- |")
    for program in programs:
        if wanted and program["name"] not in wanted:
            continue
        binary = (arguments.folder / "bin" / program["name"]).absolute()
        problem = ""
        if not binary.exists():
            problem = install(program, arguments.folder.absolute()) if arguments.install else "not installed"
        row = Row(program["name"], "?", program["allocator"], problem=problem) if problem else \
            measure(program, arguments.build.absolute() / "heaptape", binary)
        rows.append(row)
        if row.problem:
            print(f"| {row.name} {row.version} | {row.allocator} | {row.problem} | | | | |", flush=True)
        else:
            print(f"| {row.name} {row.version} | {row.allocator} | {row.hooked} | {row.made:,} | {row.recorded:,} | {row.share:.2%} | "
                  f"{'same' if row.same else 'DIFFERENT'} |", flush=True)
            if row.foreign or row.anomalies:
                print(f"{row.name}: {row.foreign} foreign frees, {row.anomalies} anomalies", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
