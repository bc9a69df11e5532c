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

`bench/figures/allocators_page.py` writes this page from `allocators/catalogue/`. `replay --list` prints which allocators are built, with version and file; `--verbose` and `--json` print all of this page too, with each knob's range, its variable and the value in force.
A library given by path (`--alloc /path/libfoo.so`) is of the kind whose function (*known by*) it has.

`--alloc NAME:KNOB=VALUE,KNOB=VALUE` sets knobs ([replay.md](replay.md#knobs)); in brackets: the default, and versions that have it. Statistics are in `allocator_stats` ([figures.md](../method/figures.md#what-the-allocator-reports)). The purge call returns memory to the kernel once all is freed. The clock is where the allocator takes the time from by which
it returns memory ([time.md](../method/time.md)).

| allocator | what it is | library from | known by | purge call | clock |
| --- | --- | --- | --- | --- | --- |
"""


def cell(text: str | None) -> str:
    """A text within a table."""
    return (text or "").replace("|", "\\|")


def code(text: str | None) -> str:
    if not text:
        return "–"
    return cell(text) if " " in text else f"`{cell(text)}`"


def versions(of: dict) -> str:
    since, last = of["since"], of["last"]
    if since and last:
        return f"{since} to {last}"
    if since:
        return f"since {since}"
    return f"up to {last}" if last else ""


def origin(allocator: dict) -> str:
    if allocator["crate"]:
        options = " ".join(f"`{name}`" for name in ("EXTRA_ALLOCATORS", allocator["option"]) if name)
        return f"crate {allocator['crate']}, {options}"
    return f"Debian's {allocator['debian']}" if allocator["debian"] else ""


def setting(allocator: dict) -> str:
    """How all knobs are set, as far as their variables have names in common."""
    settings = [knob["setting"] for knob in allocator["knobs"]]
    pattern = next((one.replace(name, "KNOB") for one, name in zip(settings, (knob["name"] for knob in allocator["knobs"]), strict=True)
                    if name in one), None)
    return f"`{pattern}`" if pattern else f"`{settings[0].replace(allocator['knobs'][0]['name'].upper(), 'KNOB')}`"


def knob_line(knob: dict) -> str:
    facts = "; ".join(filter(None, [knob["default"], versions(knob), "may be rounded" if knob["rounded"] else ""]))
    words = f" {', '.join(f'`{word}`' for word in knob['words'])}:" if knob["type"] == "word" else ""
    return f"- `{knob['name']}` ({facts}):{words} {knob['says']}\n"


def fault_line(fault: dict) -> str:
    only = f" ({versions(fault)})" if versions(fault) else ""
    alignments = f" Alignments: {fault['alignment_lowest']} to {fault['alignment_highest']} bytes." if fault["alignment_lowest"] else ""
    return f"- {fault['says']}{only}{alignments}\n"


def facts(allocator: dict) -> str:
    text = ""
    if allocator["knobs"]:
        text += f"\nKnobs, set by {setting(allocator)}:\n\n" + "".join(map(knob_line, allocator["knobs"]))
    if allocator["statistics"]:
        text += "\nStatistics, in bytes:\n\n" + "".join(
            f"- `{one['name']}`: {one['says']}\n" for one in allocator["statistics"])
    if allocator["faults"]:
        text += "\nKnown faults:\n\n" + "".join(map(fault_line, allocator["faults"]))
    return text


def sections(allocators: list[dict]) -> str:
    """Allocators with the same facts share one."""
    names: dict[str, list[str]] = {}
    for one in allocators:
        same = next((other for other in allocators if other["name"] == one["kind"]), one)
        names.setdefault(facts(same), []).append(one["name"])
    return "".join(f"\n## {', '.join(those)}\n{text.lstrip()}" for text, those in names.items() if text)


def page(allocators: list[dict]) -> str:
    rows = "".join(f"| {one['name']} | {cell(one['title'])} | {origin(one)} "
                   f"| {code(one['known_by'])} | {code(one['purge_call'])} | {code(one['clock'])} |\n" for one in allocators)
    return HEAD + rows + sections(allocators)


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
