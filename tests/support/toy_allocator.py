# SPDX-License-Identifier: Apache-2.0
"""A small allocator whose free takes some instructions more, or which wastes memory: what gates have to find."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parents[2] / "bench" / "programs" / "power_of_two_malloc.c"
_FREE = "void free(void *block) {\n    if (!block) return;\n"
EVERY = 8
"""So many calls of free for each delay."""


def toy_source(nops: int = 0, least_class: int = 5) -> str:
    """Each EVERYth free takes so many instructions more; blocks have 2**least_class bytes at least."""
    source = _SOURCE.read_text()
    delay = f"    static __thread unsigned frees;\n    if (++frees % {EVERY} == 0) __asm__ volatile(\".rept {nops}\\nnop\\n.endr\");\n"
    assert _FREE in source and "size_t class = 5;" in source
    return source.replace(_FREE, _FREE + delay).replace("size_t class = 5;", f"size_t class = {least_class};")


BUILD = ["gcc", "-O2", "-fPIC", "-shared", "-fno-builtin", "-o"]


def toy_allocator(folder: Path, name: str, nops: int = 0, least_class: int = 5) -> Path:
    """Its library."""
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(toy_source(nops, least_class))
    subprocess.run([*BUILD, library, source], check=True, timeout=60)
    return library
