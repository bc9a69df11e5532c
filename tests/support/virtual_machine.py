# SPDX-License-Identifier: Apache-2.0
"""A small Linux of its own, in memory, for what this machine's kernel is not set up for: qemu, a kernel, busybox and our build.

needs: qemu-system-x86_64, a static busybox, and a kernel with initramfs and serial console: $HEAPTAPE_TEST_KERNEL or /boot/vmlinuz-*.
It starts within 10 s. What is not installed skips the tests:

    apt-get install --no-install-recommends qemu-system-x86 busybox-static
    apt-get install --no-install-recommends linux-image-amd64          # where /boot has no kernel
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

_ENDED = re.compile(r"^ended with (\d+)\r?$", re.MULTILINE)


def _kernel() -> str | None:
    named = os.environ.get("HEAPTAPE_TEST_KERNEL")
    found = sorted(path for path in Path("/boot").glob("vmlinuz-*") if os.access(path, os.R_OK))
    return named or (str(found[-1]) if found else None)


def _libraries(program: Path) -> list[Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=60).stdout
    return [Path(word) for word in re.findall(r"(/\S+) \(0x", listed)]


def _copy(root: Path, path: Path) -> None:
    to = root / path.relative_to("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        shutil.copy(path, to)


def run_in_machine(folder: Path, programs: Iterable[Path], files: Iterable[Path], script: str, memory_mb: int = 1024,
                   limit_s: float = 300) -> tuple[int, str]:
    """Status and output of the script, run by busybox's shell as root with these programs and files where they are here."""
    qemu, busybox, kernel = shutil.which("qemu-system-x86_64"), shutil.which("busybox"), _kernel()
    if not qemu or not busybox or not kernel or _libraries(Path(busybox)):
        pytest.skip("qemu-system-x86_64, a static busybox or a kernel is missing")
    root = folder / "root"
    for program in programs:
        for path in [program, *_libraries(program)]:
            _copy(root, path)
    for path in files:
        _copy(root, path)
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    (root / "bin" / "sh").symlink_to("busybox")
    (root / "script").write_text(script)
    init = root / "init"
    init.write_text("""#!/bin/sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
sh /script
echo "ended with $?"
poweroff -f
""")
    init.chmod(0o755)
    image = folder / "image.cpio"
    with image.open("wb") as out:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True, timeout=60).stdout
        subprocess.run([busybox, "cpio", "-o", "-H", "newc"], cwd=root, input=names, stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=60)
    # Emulated, which works in a machine that is a virtual one itself.
    done = subprocess.run([qemu, "-accel", "tcg", "-cpu", "max", "-m", str(memory_mb), "-smp", "1", "-nographic", "-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", image,
                           "-append", "console=ttyS0 panic=-1 quiet"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limit_s)
    said = done.stdout.decode(errors="replace")
    ended = _ENDED.findall(said)
    assert ended, f"the machine did not come to the script's end: {said[-2000:]}{done.stderr.decode(errors='replace')[-500:]}"
    return int(ended[-1]), said.replace("\r", "")
