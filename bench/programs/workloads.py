# SPDX-License-Identifier: Apache-2.0
"""The programs that bench/figures/record.py measures recorders with."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIVE_BLOCKS = 100_000
NAMES = ("loop", "cc1", "python", "threads", "cross")


class Unavailable(Exception):
    """What a workload or a recorder needs is not installed."""


@dataclass(frozen=True)
class Workload:
    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    threads: int = 1


@dataclass(frozen=True)
class Sizes:
    """How much each workload does."""

    pairs: int
    live_blocks: int
    functions: int
    json_scale: float


FULL = Sizes(pairs=3_000_000, live_blocks=LIVE_BLOCKS, functions=220, json_scale=1)
QUICK = Sizes(pairs=150_000, live_blocks=10_000, functions=20, json_scale=0.1)
# Valgrind runs programs some fifty times slower.
COUNTED = Sizes(pairs=500_000, live_blocks=20_000, functions=20, json_scale=0.25)


def make_c_source(functions: int) -> str:
    """C code of many loops and branches on small structs; the same on every machine."""
    rng = random.Random(20817)
    parts = [f"#include <{name}.h>" for name in ("math", "pthread", "stdio", "stdlib", "string")]
    for i in range(functions):
        parts += [f"struct shape{i} {{ int kind; unsigned long length[8]; double weight;",
                  f"    struct shape{max(i - 1, 0)} *next; }};",
                  f"long step{i}(struct shape{i} *s, long n) {{",
                  f"    long total = {rng.randrange(1000)};",
                  "    for (long i = 0; i < n; i++) {"]
        for _ in range(rng.randrange(2, 7)):
            parts += [f"        if (s->kind > {rng.randrange(100)}) total {rng.choice('+-^|')}="
                      f" (long)s->length[{rng.randrange(8)}] * {rng.randrange(2, 50)};",
                      f"        else s->weight += sqrt((double)total) / {rng.randrange(2, 9)}.5;"]
        parts += ["        switch (total & 7) {",
                  "        case 1: total += i; break;",
                  "        case 2: total <<= 1; break;",
                  f"        case {rng.randrange(3, 8)}: puts(\"shape {i}\"); break;",
                  "        default: total -= s->kind;",
                  "        }",
                  "    }"]
        if i:
            parts += [f"    if (s->next) total += step{i - 1}(s->next, n / 2);"]
        parts += ["    return total;", "}"]
    return "\n".join(parts) + "\n"


def compiler(sizes: Sizes, folder: Path) -> Workload:
    """The compiler proper, not the driver: one process, and no time in the preprocessor."""
    source, preprocessed = folder / "shapes.c", folder / "shapes.i"
    source.write_text(make_c_source(sizes.functions))
    try:
        asked = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True,
                               check=True)
        subprocess.run(["gcc", "-E", source, "-o", preprocessed], check=True)
    except FileNotFoundError as missing:
        raise Unavailable("gcc is not installed") from missing
    return Workload("cc1", [asked.stdout.strip(), "-quiet", "-O1", "-o", "/dev/null",
                            str(preprocessed)])


def interpreter(sizes: Sizes) -> Workload:
    python = Path("/usr/bin/python3")
    if not python.exists():
        raise Unavailable(f"there is no {python}")
    # The hash seed decides the order of sets, and so how often tables grow.
    return Workload("python", [str(python), str(HERE / "json_work.py"),
                               str(sizes.json_scale)],
                    {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})


def loop(build: Path, sizes: Sizes, name: str, threads: int = 1, cross: bool = False) -> Workload:
    return Workload(name, [str(build / "bench" / "alloc_loop"), str(sizes.pairs),
                           str(sizes.live_blocks), str(threads), "cross" if cross else "private"],
                    threads=threads)


def make_group(name: str, build: Path, sizes: Sizes, folder: Path) -> list[Workload]:
    """Workloads that are measured in the same rounds, so that they compare with each other."""
    match name:
        case "loop":
            return [loop(build, sizes, "loop")]
        case "cc1":
            return [compiler(sizes, folder)]
        case "python":
            return [interpreter(sizes)]
        case "threads":
            return [loop(build, sizes, f"threads-{n}", n) for n in (1, 2, 4)]
        case "cross":
            return [loop(build, sizes, f"cross-{n}", n, cross=True) for n in (1, 2, 4)]
    raise ValueError(name)
