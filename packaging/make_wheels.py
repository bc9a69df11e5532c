#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the pure wheel of analysis/ and what build_inside.sh has made: the wheel with the programs and that of the simulation.
Their files lie as `cmake --install` puts them below a prefix, which for pip is the environment. The same input gives the same
bytes. Usage: make_wheels.py PURE_WHEEL MADE FOLDER; $SOURCE_DATE_EPOCH is the files' time."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

TAG = "py3-none-manylinux_2_28_x86_64"
BYTES_MAX = 20_000_000
REPLAY = """#!/bin/sh
exec "${0%/*}/heaptape" replay "$@"
"""


class Wheel:
    """Files by their names in the wheel: their bytes, and whether they may be run."""

    def __init__(self, name: str, version: str) -> None:
        self.stem = f"{name}-{version}"
        self.files: dict[str, tuple[bytes, bool]] = {}

    def add(self, name: str, data: bytes, runs: bool = False) -> None:
        self.files[name] = data, runs

    def add_below(self, folder: Path, under: str, leave_out: tuple[str, ...] = ()) -> None:
        """What links lead to: a wheel has none."""
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not name.startswith(leave_out):
                runs = bool(path.stat().st_mode & 0o111) and ".so" not in path.suffixes
                self.add(f"{under}/{name}", path.read_bytes(), runs)

    def write(self, folder: Path) -> Path:
        info = f"{self.stem}.dist-info"
        self.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: heaptape packaging\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
        lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, (data, _) in self.files.items()]
        self.add(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,", ""]).encode())
        path = folder / f"{self.stem}-{TAG}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, (data, runs) in self.files.items():
                member = zipfile.ZipInfo(name, time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6])
                member.compress_type = zipfile.ZIP_DEFLATED
                member.create_system = 3
                member.external_attr = (0o100755 if runs else 0o100644) << 16
                archive.writestr(member, data)
        if path.stat().st_size > BYTES_MAX:
            sys.exit(f"make_wheels.py: {path}: {path.stat().st_size} bytes, expected at most {BYTES_MAX}")
        return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def programs(pure: Path, made: Path, version: str) -> Wheel:
    """The package of the pure wheel, with the programs."""
    wheel = Wheel("heaptape", version)
    with zipfile.ZipFile(pure) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(("/RECORD", "/WHEEL")):
                wheel.add(name, archive.read(name))
    data = f"{wheel.stem}.data"
    wheel.add(f"{data}/scripts/heaptape", (made / "prefix/bin/heaptape").read_bytes(), True)
    wheel.add(f"{data}/scripts/replay", REPLAY.encode(), True)
    # The Python package is where pip puts it, and the simulation is a package of its own.
    wheel.add_below(made / "prefix", f"{data}/data", ("bin/", "share/heaptape/python/", "libexec/heaptape/valgrind/"))
    wheel.add_below(made / "licences", f"{wheel.stem}.dist-info/licenses")
    return wheel


def simulation(made: Path, version: str) -> Wheel:
    wheel = Wheel("heaptape_simulate", version)
    wheel.add_below(made / "prefix/libexec/heaptape/valgrind", f"{wheel.stem}.data/data/libexec/heaptape/valgrind")
    wheel.add_below(made / "licences-simulate", f"{wheel.stem}.dist-info/licenses")
    wheel.add(f"{wheel.stem}.dist-info/METADATA",
              f"Metadata-Version: 2.1\nName: heaptape-simulate\nVersion: {version}\nSummary: heaptape's simulated processor, a Valgrind tool\n"
              f"License: GPL-3.0-or-later\nRequires-Dist: heaptape=={version}\n".encode())
    return wheel


def main() -> None:
    pure, made, folder = map(Path, sys.argv[1:])
    version = re.fullmatch(r"heaptape-([^-]+)-py3-none-any\.whl", pure.name)
    if not version:
        sys.exit(f"make_wheels.py: {pure}: expected heaptape-VERSION-py3-none-any.whl")
    for wheel in (programs(pure, made, version[1]), simulation(made, version[1])):
        print(wheel.write(folder))


if __name__ == "__main__":
    main()
