# SPDX-License-Identifier: Apache-2.0
"""`heaptape replay --list`: what is known of each allocator, for people, for programs, and as a page of the documentation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tool_runner import Argument, Tools, clean_environment, run

ROOT = Path(__file__).resolve().parents[2]


def listed(tools: Tools, *options: Argument, env: dict[str, str] | None = None) -> list[dict]:
    return json.loads(tools.succeed([tools.replay_program, "--list", "--json", *options], env=env).stdout)


@pytest.fixture(scope="module")
def catalogue(tools: Tools) -> list[dict]:
    return listed(tools)


def test_every_file_of_the_catalogue_is_listed(catalogue: list[dict]) -> None:
    files = (ROOT / "allocators" / "catalogue").glob("*.c")
    named = {name for path in files
             for name in re.findall(r'^    HT_BUILD_FACT\(name, "([^"]+)"\),$', path.read_text(), re.MULTILINE)}
    assert named == {one["name"] for one in catalogue}


def test_short_list_has_a_line_for_each_that_is_built(tools: Tools, catalogue: list[dict]) -> None:
    lines = tools.succeed([tools.replay_program, "--list"]).stdout.decode().splitlines()
    built = {one["name"]: one for one in catalogue if one["built"] and one["name"] != "null"}
    assert {line.split()[0] for line in lines} == set(built)
    for line in lines:
        name, version, path = line.split(maxsplit=2)
        assert (version, path) == (built[name]["version"], built[name]["path"])


def test_json_has_all_that_is_known(catalogue: list[dict]) -> None:
    for one in catalogue:
        assert one["title"] and one["known_by"]
        assert one["built"] == (one["path"] is not None)
        for knob in one["knobs"]:
            assert knob["type"] in ("boolean", "integer", "word") and knob["says"] and knob["default"]
            assert (knob["type"] == "integer") == (knob["lowest"] is not None)
            assert (knob["type"] == "word") == (knob["words"] is not None)
            assert knob["setting"].startswith(knob["variable"]) and "VALUE" in knob["setting"]
        assert not (one["package"] or "").endswith("-dev") or one["debian"] == one["package"]
        assert all(statistic["name"] and statistic["says"] for statistic in one["statistics"])
    glibc, = [one for one in catalogue if one["name"] == "glibc"]
    assert glibc["built"] and glibc["purge_call"] == "malloc_trim(0)" and not glibc["debian"]


def test_what_is_not_built_is_listed_from_the_catalogue(tools: Tools, catalogue: list[dict],
                                                      tmp_path: Path) -> None:
    """A folder of programs from which one allocator's is missing."""
    known = [one for one in catalogue if one["built"] and one["debian"]]
    if not known:
        pytest.skip("no allocator of a Debian package is built here")
    missing = known[0]
    # /proc/self/exe is the file itself, so a link would not do.
    (tmp_path / "replay").write_bytes(tools.replay_program.read_bytes())
    (tmp_path / "replay").chmod(0o755)
    for path in tools.build.iterdir():
        if path.name.startswith(("replay-", "libheaptape_")) and path.name != f"replay-{missing['name']}":
            (tmp_path / path.name).symlink_to(path)
    command = [tmp_path / "replay", "--list"]
    found, = [one for one in json.loads(tools.succeed([*command, "--json"]).stdout)
              if one["name"] == missing["name"]]
    own = {"built", "version", "path", "build_id", "environment", "settings", "left_out", "package"}
    assert not found["built"] and all(found[key] is None for key in own - {"built"})
    values = [knob.pop("value") for one in (missing, found) for knob in one["knobs"]]
    assert values[len(missing["knobs"]):] == [None] * len(found["knobs"])
    assert {k: v for k, v in found.items() if k not in own} == {
        k: v for k, v in missing.items() if k not in own}
    text = tools.succeed([*command, "--verbose"]).stdout.decode()
    assert f"{missing['name']}  not built: Debian package {missing['debian']}\n" in text
    assert missing["name"] not in tools.succeed(command).stdout.decode().split()


def test_verbose_says_what_json_says(tools: Tools) -> None:
    text = tools.succeed([tools.replay_program, "--list", "--verbose"]).stdout.decode()
    for one in listed(tools):
        head = one["name"] + (f" {one['version']}  {one['path']}" if one["built"] else "  not built")
        part = next(part for part in text.split("\n\n") if part.startswith(head))
        assert one["title"] in part and f"purge call: {one['purge_call'] or 'none'}" in part
        for knob in one["knobs"]:
            about = part.split(f"\n    {knob['name']}: ")[1].splitlines()[1]
            assert f"default: {knob['default']}; set by {knob['setting']}" in about
            assert (f"in force: {knob['value']}" in about) == (knob["value"] is not None)
        for statistic in one["statistics"]:
            assert f"    {statistic['name']}: {statistic['says']}\n" in part + "\n"
        for fault in one["faults"]:
            assert fault["says"] in part


def test_value_in_force(tools: Tools, catalogue: list[dict]) -> None:
    """As the allocator reports it: set by --alloc, whatever our environment sets."""
    if not any(one["name"] == "jemalloc" and one["built"] for one in catalogue):
        pytest.skip("jemalloc is not built")

    def narenas(*options: str, **environment: str) -> str:
        one, = [one for one in listed(tools, *options, env=environment)
                if one["name"].split(":")[0] == "jemalloc"]
        knob, = [knob for knob in one["knobs"] if knob["name"] == "narenas"]
        return knob["value"]

    assert narenas("--alloc", "jemalloc:narenas=3") == "3"
    assert narenas(MALLOC_CONF="narenas:5") not in ("3", "5")


def test_a_library_by_its_path(tools: Tools, catalogue: list[dict]) -> None:
    path = tools.target("checking_malloc.so")
    one, = listed(tools, "--alloc", f"mine={path}")
    assert (one["name"], one["kind"], one["path"], one["built"]) == ("mine", None, str(path.resolve()), True)
    assert one["knobs"] == one["statistics"] == one["faults"] == []
    done = run([tools.replay_program, "--list", "--verbose", "--alloc", path])
    assert done.returncode == 0 and b"of unknown kind" in done.stdout
    one, = listed(tools, "--alloc", "null")
    assert one["name"] == "null"


@pytest.mark.parametrize(("number", "version"), [(209, "2.0.9"), (3206, "3.2.6"), (20303, "2.3.3")])
def test_every_form_of_mimallocs_version(tools: Tools, tmp_path: Path, number: int, version: str) -> None:
    """Its number had three digits, then four, then five."""
    source, library = tmp_path / "numbered.c", tmp_path / "numbered.so"
    allocator = ROOT / "bench" / "programs" / "power_of_two_malloc.c"
    source.write_text(f'#include "{allocator}"\nint mi_version(void) {{ return {number}; }}\nvoid mi_process_info(void) {{}}\n')
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-fno-builtin", "-o", library, source], check=True, timeout=60)
    one, = listed(tools, "--alloc", f"mine={library}")
    assert (one["kind"], one["version"]) == ("mimalloc", version)


def test_a_word_that_an_older_jemalloc_has_as_yes_or_no(tools: Tools, tmp_path: Path) -> None:
    """thp, until 4.5: its address was taken for a word's."""
    source, library = tmp_path / "older.c", tmp_path / "older.so"
    source.write_text(f"""#include "{ROOT / "bench" / "programs" / "power_of_two_malloc.c"}"
int mallctl(const char *name, void *value, size_t *bytes, void *set, size_t set_bytes) {{
    (void)set; (void)set_bytes;
    if (strcmp(name, "opt.thp") || *bytes != 1) return 2;
    memset(value, 1, 1);
    return 0;
}}
""")
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-fno-builtin", "-include", "string.h", "-o", library, source], check=True, timeout=60)
    one, = listed(tools, "--alloc", f"mine={library}")
    knob, = [knob for knob in one["knobs"] if knob["name"] == "thp"]
    assert (one["kind"], knob["value"]) == ("jemalloc", "1")


def test_the_pages_are_what_the_catalogue_says(tools: Tools, tmp_path: Path) -> None:
    program = ROOT / "bench" / "figures" / "allocators_page.py"
    subprocess.run([sys.executable, program, "--replay", tools.replay_program, "-o", tmp_path], check=True, timeout=120, env=clean_environment())
    pages = ROOT / "docs" / "reference"
    expected = {path.relative_to(pages): path.read_text() for path in [pages / "allocators.md", *(pages / "allocators").iterdir()]}
    assert {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.md")} == expected, f"run {program.relative_to(ROOT)}"


def test_what_sets_the_knobs_is_listed(tools: Tools) -> None:
    command = [tools.replay_program, "--list", "--json", "--alloc", "glibc,glibc:arena_max=1"]
    plain, limited = json.loads(tools.succeed(command).stdout)
    assert plain["environment"] == [] and limited["environment"] == ["GLIBC_TUNABLES=glibc.malloc.arena_max=1"]
