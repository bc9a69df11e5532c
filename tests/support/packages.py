# SPDX-License-Identifier: Apache-2.0
"""Packages as distributions make them, and as nobody should: their bytes, from what they are to have in them."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

LIBRARY = """
#include <stddef.h>
static char heap[1 << 16];
void *malloc(size_t size) { return size ? heap : 0; }
void free(void *block) { (void)block; }
"""


def library(folder: Path, source: str, soname: str, *flags: str) -> bytes:
    """A shared library with malloc and free and the source's own."""
    made = folder / "made.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-nostdlib", f"-Wl,-soname,{soname}", *flags, "-o", made, "-x", "c", "-"],
                   input=(LIBRARY + source).encode(), check=True, timeout=60)
    return made.read_bytes()


def mimalloc(folder: Path, number: int = 30600, soname: str = "libmimalloc.so.3", more: str = "") -> bytes:
    """What add takes for mimalloc, of the version that mi_version() returns."""
    return library(folder, f"void mi_process_info(void) {{}}\nint mi_version(void) {{ return {number}; }}\n{more}", soname)


def entry(name: str, type_: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644, size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.size = type_, link, mode, size
    return made


def tar(files: dict[str, bytes], *others: tarfile.TarInfo, compression: str = "gz") -> bytes:
    """The others come first."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{compression}") as made:
        for other in others:
            made.addfile(other, io.BytesIO(b"x" * other.size))
        for name, contents in files.items():
            made.addfile(entry(name, size=len(contents)), io.BytesIO(contents))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, contents in files.items():
            made.writestr(name, contents)
    return out.getvalue()


def ar(files: dict[str, bytes]) -> bytes:
    made = b"!<arch>\n"
    for name, contents in files.items():
        made += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(contents):<10}`\n".encode() + contents + b"\n" * (len(contents) % 2)
    return made


def deb(data: bytes, version: str = "1:9.9+ds-1") -> bytes:
    control = tar({"./control": f"Package: libsomething\nVersion: {version}\nArchitecture: amd64\n".encode()})
    return ar({"debian-binary": b"2.0\n", "control.tar.gz": control, "data.tar": data})


def rpm(files: dict[str, bytes]) -> bytes:
    """With two headers that say nothing."""
    cpio = b""
    for name, contents in [*files.items(), ("TRAILER!!!", b"")]:
        fields = (1, 0o100644, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        cpio += head + b"\0" * (-len(head) % 4) + contents + b"\0" * (-len(contents) % 4)
    lead = struct.pack(">IBBHH66sHH16x", 0xEDABEEDB, 3, 0, 0, 1, b"libsomething-1-1", 1, 5)
    return lead + 2 * struct.pack(">IIII", 0x8EADE801, 0, 0, 0) + gzip.compress(cpio)
