#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/allocators.md and a page for each kind in allocators/ from what `heaptape replay --list --json` knows.

The catalogue (allocators/catalogue/) is the source: what is built here, and in which version, does not show in the pages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

HEAD = """# Allocators

`bench/figures/allocators_page.py` writes this page and those of the allocators from `allocators/catalogue/`. `heaptape replay --list` prints which are built, with version and file; `--verbose` and `--json` print all facts of these pages and the current value of each knob.

`--alloc NAME:KNOB=VALUE,KNOB=VALUE` sets knobs, by their names here or in the environment, as in `glibc:MALLOC_ARENA_MAX=2` ([replay.md](replay.md#knobs)). Statistics are in `allocator_stats` ([method](../method/method.md#memory-in-the-heap)). After the last free, replay uses the purge call to return memory to the kernel. The clock decides when the allocator returns memory
([time](../method/method.md#time)). A library given by path (`--alloc /path/libfoo.so`) is identified by a function that it exports. Any other release gets a name by `heaptape allocators add FILE`: [added allocators](added-allocators.md).

| allocator | description | library from |
| --- | --- | --- |
"""


def cell(text: str | None) -> str:
    """A text within a table."""
    return (text or "").replace("|", "\\|")


def code(text: str | None) -> str:
    if not text:
        return "none"
    return text if " " in text else f"`{cell(text)}`"


def versions(of: dict) -> str:
    since, last = of["since"], of["last"]
    if since and last:
        return f"versions {since} to {last}"
    if since:
        return f"since version {since}"
    return f"up to version {last}" if last else ""


def origin(allocator: dict) -> str:
    if allocator["crate"] or allocator["archive"]:
        options = " ".join(f"`{name}`" for name in ("EXTRA_ALLOCATORS", allocator["option"]) if name)
        return (f"crate {allocator['crate']}" if allocator["crate"] else f"Debian's source {Path(allocator['archive']).name}") + f", {options}"
    return f"Debian's {allocator['debian']}" if allocator["debian"] else ""


def values(knob: dict) -> str:
    if knob["type"] == "boolean":
        return "0 or 1"
    if knob["type"] == "word":
        return ", ".join(f"`{word}`" for word in knob["words"])
    return by_version(knob, lambda one: f"{one['lowest']} to {one['highest']}")


def by_version(knob: dict, text_of: Callable[[dict], str]) -> str:
    """Of the first version that has the knob, then of each that changes it."""
    found = [(one["since"], text_of(one)) for one in knob["by_version"]] or [("", text_of(knob))]
    later = [f"since {since}: {text}" for (_, before), (since, text) in pairwise(found) if text != before]
    return "; ".join([found[0][1], *later])


def knob_row(knob: dict) -> str:
    says = knob["says"] + ("; the allocator may round it" if knob["rounded"] else "") + (f" ({versions(knob)})" if versions(knob) else "")
    names = [knob["setting"], *(name for name in knob["also"] if name not in knob["setting"] and name != knob["name"])]
    return f"| `{knob['name']}` | {cell(values(knob))} | {cell(by_version(knob, lambda one: one['default']))} | {' or '.join(map(code, names))} | {cell(says)} |\n"


def fault_line(fault: dict) -> str:
    only = f" ({versions(fault)})" if versions(fault) else ""
    alignments = f" Alignments: {fault['alignment_lowest']} to {fault['alignment_highest']} bytes." if fault["alignment_lowest"] else ""
    return f"- {fault['says']}{only}{alignments}\n"


def facts(allocator: dict) -> str:
    text = f"Identified by the function {code(allocator['known_by'])}. Purge call: {code(allocator['purge_call'])}. Clock: {code(allocator['clock'])}.\n"
    if allocator["knobs"]:
        text += "\n## Knobs\n| knob | values | default | set by | effect |\n| --- | --- | --- | --- | --- |\n"
        text += "".join(map(knob_row, allocator["knobs"]))
    if allocator["statistics"]:
        text += "\n## Statistics\n| statistic | meaning |\n| --- | --- |\n"
        text += "".join(f"| `{one['name']}` | {cell(one['says'])} |\n" for one in allocator["statistics"])
    if allocator["faults"]:
        text += "\n## Known faults\n" + "".join(map(fault_line, allocator["faults"]))
    return text


def pages(allocators: list[dict]) -> dict[str, str]:
    """By path. Allocators with the same facts share a page, of the name that is a kind's."""
    shared: dict[str, list[str]] = {}
    for one in sorted(allocators, key=lambda one: one["name"] != one["kind"]):
        same = next((other for other in allocators if other["name"] == one["kind"]), one)
        shared.setdefault(facts(same), []).append(one["name"])
    page_of = {name: f"allocators/{names[0]}.md" for names in shared.values() for name in names}
    rows = [f"| [{one['name']}]({page_of[one['name']]}) | {cell(one['title'])} | {origin(one)} |\n" for one in allocators]
    return {"allocators.md": HEAD + "".join(rows)} | {page_of[names[0]]: f"# {', '.join(names)}\n\n{text}" for text, names in shared.items()}


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", type=Path, default=root / "build" / "replay")
    parser.add_argument("-o", "--output", type=Path, default=root / "docs" / "reference", metavar="DIR", help="where the pages go")
    options = parser.parse_args()
    # An allocator that is built but does not run here is in the catalogue all the same.
    listed = subprocess.run([options.replay, "--list", "--json"], stdout=subprocess.PIPE, check=False)
    (options.output / "allocators").mkdir(exist_ok=True)
    for name, text in pages([one for one in json.loads(listed.stdout) if not one["added"]]).items():
        (options.output / name).write_text(text)


if __name__ == "__main__":
    main()
