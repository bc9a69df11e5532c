#!/usr/bin/env python3
"""Writes docs/reference/allocators.md from what `replay --list --json` knows.

The catalogue (allocators/catalogue/) is the source: what is built here, and in which version, does not show in the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HEAD = """# Allocators

One of the pages about [replay](replay.md). It is written by `bench/figures/allocators_page.py` from the files in `allocators/catalogue/`: change those.

What `replay` knows of each kind of allocator. `replay --list` says which are built here, in which version and from which file; `replay --list --verbose` says all of this page, too, and
`--json` the same for programs: an array of objects with `name`, `built`, `version`, `path`, `knobs`, `statistics`, `purge_call`, `clock`, `faults` and more, each knob with `name`, `type`,
`lowest`, `highest`, `words`, `default`, `setting`, `says` and, where the allocator tells it, its `value` now. A library given by its path (`--alloc /path/libfoo.so`) is of the kind whose function, named below,
it has: it is asked and purged like that.

`--alloc NAME:KNOB=VALUE,KNOB=VALUE` sets knobs; each such configuration is an allocator of its own in every table. An unknown knob, a value out of its range, a knob that this version does not
have, and one that the allocator did not heed, where it can tell, are errors.

- A **statistic** is what the allocator says of itself: see `allocator_stats` in [figures.md](../method/figures.md).
- The **purge call** gives memory back to the kernel once everything has been freed (`rss_after_purge_bytes`).
- The **clock** is where it takes the time from by which it gives memory back: see [time.md](../method/time.md).

| allocator | what it is | library from | purge call | clock | knobs |
| --- | --- | --- | --- | --- | ---: |
"""


def cell(text: str | None) -> str:
    """A text within a table."""
    return (text or "").replace("|", "\\|")


def code(text: str | None) -> str:
    return f"`{cell(text)}`" if text else "none"


def versions(of: dict) -> str:
    since, last = of["since"], of["last"]
    if since and last:
        return f"versions {since} to {last}"
    if since:
        return f"since version {since}"
    return f"up to version {last}" if last else ""


def origin(allocator: dict) -> str:
    if allocator["crate"]:
        options = " ".join(f"`{name}`" for name in ("EXTRA_ALLOCATORS", allocator["option"]) if name)
        return f"crate {allocator['crate']}, {options}"
    return f"Debian's {allocator['debian']}" if allocator["debian"] else ""


def sentence(text: str) -> str:
    """Names of allocators stay as they are."""
    capital = text.split()[0] in ("a", "an", "the", "no")
    return (text[0].upper() if capital else text[0]) + text[1:] + "."


def values(knob: dict) -> str:
    if knob["type"] == "boolean":
        return "0 or 1"
    if knob["type"] == "word":
        return ", ".join(f"`{word}`" for word in knob["words"])
    return f"{knob['lowest']} to {knob['highest']}"


def knob_row(knob: dict) -> str:
    says = knob["says"]
    if knob["rounded"]:
        says += "; the allocator may round it"
    if versions(knob):
        says += f" ({versions(knob)})"
    return (f"| `{knob['name']}` | {cell(values(knob))} | {cell(knob['default'])} "
            f"| {code(knob['setting'])} | {cell(says)} |\n")


def fault_line(fault: dict) -> str:
    text = fault["says"]
    if versions(fault):
        text += f" ({versions(fault)})"
    if fault["alignment_lowest"]:
        text += f" Alignments: {fault['alignment_lowest']} to {fault['alignment_highest']} bytes."
    return f"- {text}\n"


def section(allocator: dict) -> str:
    if allocator["kind"] != allocator["name"]:
        return (f"\n## {allocator['name']}\n{sentence(allocator['title'])} All else is as of "
                f"[{allocator['kind']}](#{allocator['kind']}).\n")
    text = f"\n## {allocator['name']}\n{sentence(allocator['title'])} Known by the function `{allocator['known_by']}`.\n"
    if allocator["knobs"]:
        text += "\n| knob | values | default | set by | what it does |\n| --- | --- | --- | --- | --- |\n"
        text += "".join(knob_row(knob) for knob in allocator["knobs"])
    if allocator["statistics"]:
        text += "\n| statistic | what it says it is |\n| --- | --- |\n"
        text += "".join(f"| `{one['name']}` | {cell(one['says'])} |\n"
                        for one in allocator["statistics"])
    if allocator["faults"]:
        text += "\nKnown faults:\n\n" + "".join(map(fault_line, allocator["faults"]))
    return text


def page(allocators: list[dict]) -> str:
    rows = "".join(f"| [{one['name']}](#{one['name'].lower().replace('.', '')}) | {cell(one['title'])} | {origin(one)} "
                   f"| {code(one['purge_call'])} | {code(one['clock'])} | {len(one['knobs'])} |\n"
                   for one in allocators)
    return HEAD + rows + "".join(map(section, allocators))


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", type=Path, default=root / "build" / "replay")
    parser.add_argument("-o", "--output", type=Path, help="instead of printing it")
    options = parser.parse_args()
    # An allocator that is built but does not run here is in the catalogue all the same.
    listed = subprocess.run([options.replay, "--list", "--json"], stdout=subprocess.PIPE, check=False)
    text = page(json.loads(listed.stdout))
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
