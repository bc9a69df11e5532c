# SPDX-License-Identifier: Apache-2.0
"""Systems older than the one that heaptape was built on: the loader ends a program whose preloaded library needs a newer one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tool_runner import Tools, run

GLIBC_NEWEST = (2, 17)


@pytest.mark.parametrize("name", ["libmalloc_wrap.so", "libmalloc_wrap_full.so"])
def test_needs_no_newer_libc(tools: Tools, name: str) -> None:
    done = run(["readelf", "-W", "--version-info", tools.shim.with_name(name)])
    needed = re.findall(r"Name: (GLIBC_\S+)", done.stdout.decode())
    assert done.returncode == 0 and {"GLIBC_2.2.5", "GLIBC_2.17"} & set(needed), done
    newer = [version for version in needed
             if not re.fullmatch(r"GLIBC_[\d.]+", version) or
             tuple(int(part) for part in version.removeprefix("GLIBC_").split(".")) > GLIBC_NEWEST]
    assert not newer


def test_libc_that_cannot_find_call_sites(tools: Tools, tmp_path: Path) -> None:
    """As before glibc 2.35. The calls are recorded, and `record` and `convert` say that the sites are not."""
    if run([tools.heaptape, "record", "--sites", "--", "true"]).returncode == 2:
        pytest.skip("call sites are not recorded on this processor")
    done = run([tools.heaptape, "record", "--sites", "-o", tmp_path / "logs", "--", tools.target("finds_no_objects")])
    assert done.returncode == 0, done
    assert re.search(rb"warning: .*: no call sites are recorded: .*glibc 2.35", done.stderr)
    [log] = (tmp_path / "logs").iterdir()
    converted = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert converted.returncode == 0 and b"no call sites are recorded: " in converted.stderr
    assert tools.info(tmp_path / "t.bin")["events"] >= 200
