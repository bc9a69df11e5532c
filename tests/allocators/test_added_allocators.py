# SPDX-License-Identifier: Apache-2.0
"""`heaptape allocators`: releases that the user adds, proved before they have a name, and packages that are refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import struct
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import packages
import replay_traces
from packages import ar, deb, entry, rpm, tar, zipped
from tool_runner import Tools, clean_environment, run

LIB = "./usr/lib/x86_64-linux-gnu/"
NAME = LIB + "libmimalloc.so.3.6"


class Added:
    """The verb, with a data folder of its own."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools, self.folder = tools, folder
        self.env = {"XDG_DATA_HOME": str(folder / "data")}
        self.all = folder / "data" / "heaptape" / "allocators"

    def verb(self, *words: object) -> subprocess.CompletedProcess[bytes]:
        return run([self.tools.heaptape, "allocators", *map(str, words)], env=self.env)

    def add(self, contents: bytes, *words: object, name: str = "package") -> subprocess.CompletedProcess[bytes]:
        path = self.folder / name
        path.write_bytes(contents)
        return self.verb("add", path, *words)

    def added(self, contents: bytes, *words: object, name: str = "package") -> str:
        """The name that it got."""
        done = self.add(contents, *words, name=name)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().split()[0]

    def there(self) -> list[str]:
        """Whatever is there, half made folders among it."""
        return sorted(os.listdir(self.all)) if self.all.exists() else []

    def listed(self) -> dict[str, dict]:
        return {one["name"]: one for one in json.loads(self.verb("--json").stdout) if one["added"]}

    def replay(self, alloc: str, trace: Path, *words: str) -> dict[str, dict]:
        """By name the allocator of a line of results."""
        results = self.folder / "results.jsonl"
        results.unlink(missing_ok=True)
        self.tools.succeed([self.tools.replay_program, "-q", "--alloc", alloc, "--rounds", "1", "--pass", "memory", trace, "-o", results, *words],
                           env=self.env)
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        return {line["allocator"]["name"]: line["allocator"] for line in lines}


@pytest.fixture
def added(tools: Tools, tmp_path: Path) -> Added:
    return Added(tools, tmp_path)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return packages.mimalloc(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("trace"), events=2000)


# ---- what it is ----

SORTS: dict[str, Callable[[bytes], bytes]] = {
    "deb": lambda library: deb(tar({NAME: library}, entry(LIB + "libmimalloc.so.3", tarfile.SYMTYPE, "libmimalloc.so.3.6"))),
    "deb-xz": lambda library: ar({"debian-binary": b"2.0\n", "control.tar.xz": tar({}, compression="xz"),
                                  "data.tar.xz": tar({NAME: library}, compression="xz")}),
    "rpm": lambda library: rpm({"./usr/lib64/libmimalloc.so.3.6": library}),
    # A wheel has no links, but copies.
    "wheel": lambda library: zipped({"cmeel.prefix/lib/libmimalloc.so": library, "cmeel.prefix/lib/libmimalloc.so.3": library,
                                     "x.dist-info/METADATA": b"Metadata-Version: 2.1\nVersion: 8.8\n"}),
    # As .apk is: members of gzip, one after another; zeros that fill a block.
    "apk": lambda library: gzip.compress(tar({".PKGINFO": b"pkgver = 8.8\n"}, compression="")[:1024]) + tar({NAME: library}) + bytes(100),
    "tar.bz2": lambda library: tar({"lib/libmimalloc.so.3": library, "doc/readme": b"text"}, compression="bz2"),
    "library": lambda library: library,
}


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_of_package_gives_a_name(added: Added, library: bytes, sort: str) -> None:
    contents = SORTS[sort](library)
    assert added.added(contents, name=f"lib.{sort}") == "mimalloc@3.6.0" and added.there() == ["mimalloc@3.6.0"]
    folder = added.all / "mimalloc@3.6.0"
    assert sorted(os.listdir(folder)) == ["allocator.json", "libmimalloc.so.3"]
    assert (folder / "libmimalloc.so.3").read_bytes() == library
    one = added.listed()["mimalloc@3.6.0"]
    assert (one["kind"], one["version"], one["path"]) == ("mimalloc", "3.6.0", str(folder / "libmimalloc.so.3"))
    assert one["added"] == {"source": f"lib.{sort}", "sha256": hashlib.sha256(contents).hexdigest(), "evidence": "the code of mi_version()"}
    assert one["knobs"] and one["purge_call"] == "mi_collect(true)"
    line, = [line for line in added.verb().stdout.decode().splitlines() if line.startswith("mimalloc@")]
    assert line.split() == ["mimalloc@3.6.0", "3.6.0", str(folder / "libmimalloc.so.3"), "from", f"lib.{sort}"]


def test_versions_come_from_the_library_or_its_package(added: Added, tmp_path: Path) -> None:
    text = 'void {}(void) {{}}\nconst char *said(void) {{ return "{}"; }}\n'
    jemalloc = packages.library(tmp_path, text.format("mallctl", "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"), "libjemalloc.so.2")
    tcmalloc = packages.library(tmp_path, text.format("MallocExtension_GetNumericProperty", "gperftools 2.18.1"), "libtcmalloc_minimal.so.4")
    rpmalloc = packages.library(tmp_path, "void rpmalloc_global_statistics(void) {}\n", "librpmalloc.so.1")
    assert added.added(jemalloc) == "jemalloc@5.3.0"
    assert added.added(tcmalloc) == "tcmalloc@2.18.1"
    assert added.added(packages.mimalloc(tmp_path, 209)) == "mimalloc@2.0.9"
    assert added.added(deb(tar({LIB + "librpmalloc.so.1": rpmalloc}), "1:2.0.1+ds-1")) == "rpmalloc@2.0.1"
    assert added.listed()["rpmalloc@2.0.1"]["added"]["evidence"] == "the version of its package"
    done = added.add(rpmalloc)
    assert done.returncode == 3 and b"give it by --name rpmalloc@VERSION" in done.stderr
    assert added.added(rpmalloc, "--name", "rpmalloc@1.4.3") == "rpmalloc@1.4.3"
    assert added.listed()["rpmalloc@1.4.3"]["added"]["evidence"] == "--name"


def test_a_name_fits_what_was_found(added: Added, library: bytes) -> None:
    for name, status, said in (("jemalloc@3.6.0", 3, b"found mimalloc"), ("mimalloc@3.6", 3, b"found 3.6.0"), ("mimalloc@3.6.01", 3, b"found 3.6.0"),
                               ("mimalloc", 2, b"expected"), ("a\nb\x1b", 2, b"a\\x0ab\\x1b: expected"), ("mimalloc@x", 2, b"expected"), ("mimalloc@3/../..", 2, b"expected"), ("what@1", 2, b"expected")):
        done = added.add(library, "--name", name)
        assert done.returncode == status and said in done.stderr and not added.there(), name
    assert added.added(library, "--name", "mimalloc@3.6.0-patched") == "mimalloc@3.6.0-patched"
    # The library of debugging beside it is none of the candidates.
    assert added.added(deb(tar({NAME: library, LIB + "libmimalloc-debug.so.3": packages.mimalloc(added.folder, 30600, "libmimalloc-debug.so.3")})))


def test_the_same_again_is_no_failure_and_another_is(added: Added, library: bytes) -> None:
    added.added(library)
    again = added.add(library)
    assert again.returncode == 0 and b"already" in again.stderr
    other = added.add(deb(tar({NAME: library})), name="other.deb")
    assert other.returncode == 1 and b"mimalloc@3.6.0 is there already, from package" in other.stderr
    assert added.there() == ["mimalloc@3.6.0"]
    assert added.verb("remove", "mimalloc@3.6.0").returncode == 0 and added.there() == []
    assert added.verb("remove", "mimalloc@3.6.0").returncode == 1
    assert added.verb("remove", "../x").returncode == 2
    assert added.added(deb(tar({NAME: library})), name="other.deb") == "mimalloc@3.6.0"


@pytest.mark.parametrize("words", [["add"], ["remove"], ["what"], ["add", "a", "b"], ["--name", "mimalloc@1.0"], ["remove", "x@1", "--build"],
                                   ["add", "a", "--json"], ["remove", "x@1", "-v"]])
def test_wrong_usage_is_said(added: Added, words: list[str]) -> None:
    done = added.verb(*words)
    assert done.returncode == 2 and b"expected" in done.stderr and not done.stdout


def test_nothing_of_it_runs(added: Added, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    source = f'int open(const char *, int, ...);\n__attribute__((constructor)) static void begin(void) {{ open("{ran}", 0101, 0600); }}\n'
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmimalloc.so.3", "-o", tmp_path / "begins.so", "-x", "c", "-"], check=True,
                   input=(packages.LIBRARY + "void mi_process_info(void) {}\nint mi_version(void) { return 30600; }\n" + source).encode(), timeout=60)
    assert added.added((tmp_path / "begins.so").read_bytes()) == "mimalloc@3.6.0"
    assert added.listed() and added.verb("-v").returncode == 0 and not ran.exists()
    run(["/bin/true"], env={"LD_PRELOAD": str(added.all / "mimalloc@3.6.0" / "libmimalloc.so.3")})
    assert ran.exists(), "it would have been seen"


# ---- replays ----

def built(tools: Tools, name: str) -> dict:
    one, = [one for one in json.loads(tools.succeed([tools.replay_program, "--list", "--json"]).stdout) if one["name"] == name]
    if not one["built"]:
        pytest.skip(f"{name} is not installed")
    return one


@pytest.mark.parametrize(("name", "knob"), [("mimalloc", "use_numa_nodes=1"), ("jemalloc", "narenas=1"), ("tcmalloc", "aggressive_decommit=1")])
def test_real_libraries_are_replayed_with_knobs(added: Added, trace: Path, name: str, knob: str) -> None:
    one = built(added.tools, name)
    got = added.added(deb(tar({LIB + Path(one["path"]).name: Path(one["path"]).read_bytes()}, compression="")))
    assert got == f"{name}@{one['version']}"
    of_it, = json.loads(run([added.tools.replay_program, "--list", "--json", "--alloc", f"label={got}"], env=added.env).stdout)
    assert of_it["added"]["source"] == "package" and of_it["name"] == "label" and of_it["version"] == one["version"]
    lines = added.replay(f"glibc,{got},{got}:{knob},mine={got}", trace)
    for shown in (got, f"{got}:{knob}", "mine"):
        assert lines[shown]["version"] == one["version"] and lines[shown]["path"].startswith(f"{added.all}/{got}/")
        assert lines[shown]["build_id"] == one["build_id"]
    assert knob.split("=") in map(list, lines[f"{got}:{knob}"]["knobs"].items())


@pytest.mark.parametrize("layout", ["merged", "unmerged"])
def test_a_c_library_comes_with_its_loader(added: Added, trace: Path, layout: str) -> None:
    libc, version = Path(built(added.tools, "glibc")["path"]), os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    loader = libc.parent / "ld-linux-x86-64.so.2"
    if not loader.exists():
        pytest.skip("the loader is elsewhere")
    beside = {name: (libc.parent / name).read_bytes() for name in ("libm.so.6", "libpthread.so.0", "libdl.so.2")}
    if layout == "merged":
        folder, files = "./usr/lib/x86_64-linux-gnu/", {"ld-linux-x86-64.so.2": loader.read_bytes(), "libc.so.6": libc.read_bytes(), **beside}
        links = [entry("./usr/lib64/ld-linux-x86-64.so.2", tarfile.SYMTYPE, "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")]
    else:  # as up to 2.31
        folder, files = "./lib/x86_64-linux-gnu/", {"ld-2.31.so": loader.read_bytes(), "libc-2.31.so": libc.read_bytes(), **beside}
        links = [entry("./lib64/ld-linux-x86-64.so.2", tarfile.SYMTYPE, "/lib/x86_64-linux-gnu/ld-2.31.so"),
                 entry("./lib/x86_64-linux-gnu/libc.so.6", tarfile.SYMTYPE, "libc-2.31.so")]
    name = added.added(deb(tar({folder + file: contents for file, contents in files.items()}, *links, compression="")))
    assert name == f"glibc@{version}"
    assert set(os.listdir(added.all / name)) == {"allocator.json", "ld-linux-x86-64.so.2", "libc.so.6", *beside}
    lines = added.replay(f"{name},{name}:arena_max=1", trace)
    assert lines[name]["version"] == version and lines[name]["path"] == str(added.all / name / "libc.so.6")
    done = added.add(libc.read_bytes(), name="libc.so.6")
    assert done.returncode == 3 and b"loader" in done.stderr


def test_unknown_names_say_what_there_is(added: Added, library: bytes, trace: Path) -> None:
    def said(alloc: str) -> str:
        done = run([added.tools.replay_program, "--alloc", alloc, trace], env=added.env)
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1
        return done.stderr.decode()

    assert "mimalloc@3.0 is not there, nor another version; heaptape allocators add FILE adds one" in said("mimalloc@3.0")
    added.added(library)
    assert "mimalloc@3.0 is not there: expected one of mimalloc@3.6.0; heaptape allocators add FILE" in said("glibc,mimalloc@3.0:purge_delay=0")
    assert "expected NAME@VERSION" in said("foo@1.0") and "/ld.so" in said("glibc@/ld.so")
    (added.all / "mimalloc@3.6.0").chmod(0o777)
    assert "expected a folder that only you or root may write to" in said("mimalloc@3.6.0")
    (added.all / "mimalloc@3.6.0").chmod(0o700)
    (added.all / "mimalloc@3.6.0" / "allocator.json").write_text('{"library": "../../x"}')
    assert "expected allocator.json to name a library here" in said("mimalloc@3.6.0")
    assert added.verb().returncode == 1 and added.verb("remove", "mimalloc@3.6.0").returncode == 0


def test_what_reports_another_version_is_not_replayed(added: Added, trace: Path) -> None:
    one = built(added.tools, "jemalloc")
    name = added.added(Path(one["path"]).read_bytes())
    (added.all / name).rename(added.all / "jemalloc@1.2.3")
    manifest = added.all / "jemalloc@1.2.3" / "allocator.json"
    manifest.write_text(manifest.read_text().replace(one["version"], "1.2.3"))
    done = run([added.tools.replay_program, "--alloc", "glibc,jemalloc@1.2.3", trace], env=added.env)
    assert f"jemalloc@1.2.3: expected version 1.2.3, found one that reports {one['version']}" in done.stderr.decode()


# ---- what is refused ----

def _damaged(library: bytes, offset: int, form: str, value: int) -> bytes:
    made = bytearray(library)
    struct.pack_into(form, made, offset, value)
    return bytes(made)


OUTSIDE = "../../../../../outside"
HOSTILE: dict[str, tuple[Callable[[bytes, Path], bytes], str]] = {
    "dotdot": (lambda so, out: deb(tar({OUTSIDE: b"x", NAME: so})), "leads out of it"),
    "dotdot within": (lambda so, out: deb(tar({"./usr/../../outside": b"x", NAME: so})), "leads out of it"),
    "dotdot in a zip": (lambda so, out: zipped({"a/../../outside": so}), "leads out of it"),
    "absolute": (lambda so, out: deb(tar({f"{out}/outside": b"x", NAME: so})), "leads out of it"),
    "absolute in an rpm": (lambda so, out: rpm({f"{out}/outside": so}), "leads out of it"),
    "hard link": (lambda so, out: deb(tar({NAME: so}, entry("./x", tarfile.LNKTYPE, "/etc/passwd"))), "a hard link: ./x"),
    "device": (lambda so, out: deb(tar({NAME: so}, entry("./dev", tarfile.CHRTYPE))), "a device"),
    "block device": (lambda so, out: deb(tar({NAME: so}, entry("./dev", tarfile.BLKTYPE))), "a device"),
    "fifo": (lambda so, out: deb(tar({NAME: so}, entry("./pipe", tarfile.FIFOTYPE))), "a pipe"),
    "setuid": (lambda so, out: deb(tar({NAME: so}, entry("./su", mode=0o4755))), "runs as another user"),
    "newline in a name": (lambda so, out: deb(tar({LIB + "lib\nmimalloc.so": so})), "control characters"),
    "escape in a name": (lambda so, out: deb(tar({LIB + "lib\x1b[2Jmimalloc.so": so})), "control characters"),
    "long name": (lambda so, out: deb(tar({"x/" * 3000 + "lib.so": so})), "4096"),
    "bomb by ratio": (lambda so, out: deb(tar({"./zeros": bytes(17 << 20), NAME: so})), "250 times"),
    "bomb in a zip": (lambda so, out: zipped({"zeros": bytes(17 << 20), "lib.so": so}), "250 times"),
    "bomb by count": (lambda so, out: entry("x").tobuf() * 65537, "65536 entries"),
    "nested": (lambda so, out: tar({"inner.deb": deb(tar({NAME: so})), "data.tar.gz": tar({"data.tar.gz": tar({NAME: so})})}), "found none"),
    "truncated": (lambda so, out: deb(tar({NAME: so}))[:-400], "offset "),
    "truncated zip": (lambda so, out: zipped({"lib.so": so})[:400], "expected"),
    "damaged data": (lambda so, out: deb(tar({NAME: so}))[:900] + bytes(200) + deb(tar({NAME: so}))[1100:], "offset "),
    "32 bits": (lambda so, out: deb(tar({NAME: _damaged(so, 4, "B", 1)})), "of 64 bits, found " + NAME),
    "another machine": (lambda so, out: deb(tar({NAME: _damaged(so, 18, "<H", 183)})), "of 64 bits, found " + NAME),
    "a program": (lambda so, out: deb(tar({NAME: _damaged(so, 16, "<H", 2)})), "found none"),
    "headers beyond its end": (lambda so, out: deb(tar({NAME: _damaged(so, 32, "<Q", 1 << 62)})), "found none"),
    "65535 segments": (lambda so, out: deb(tar({NAME: _damaged(so, 56, "<H", 65535)})), "found none"),
    "sections beyond its end": (lambda so, out: deb(tar({NAME: _damaged(so, 40, "<Q", (1 << 64) - 64)})), "found none"),
    "half a library": (lambda so, out: deb(tar({NAME: so[:4096]})), "found none"),
    "two candidates": (lambda so, out: deb(tar({NAME: so, LIB + "b.so": packages.mimalloc(out, 209)})), f"found {NAME}, {LIB}b.so"),
    "unknown": (lambda so, out: deb(tar({LIB + "libmy.so": packages.library(out, "", "libmy.so")})), "an unknown allocator"),
    "two signs": (lambda so, out: packages.mimalloc(out, more="void mallctl(void) {}"), "an unknown allocator"),
    "needs its package": (lambda so, out: deb(tar({NAME: _needing(out), LIB + "libother.so": (out / "libother.so").read_bytes()})),
                          "needs none of its own package, found libother.so"),
    "two of one name": (lambda so, out: deb(tar(_libc_with_doubles(out))), "one library of each name, found libm.so.6"),
    "zip without its directory": (lambda so, out: (made := zipped({"lib.so": so}))[:made.rindex(b"PK\1\2")], "expected"),
    "tar without its end": (lambda so, out: tar({"lib.so": so + bytes(-len(so) % 512)}, compression="")[:512 + len(so) + -len(so) % 512], "cut off"),
    "other contents than the sum": (lambda so, out: _summed_wrongly(tar({NAME: so})), "check sum"),
    "other contents than the sum in a deb": (lambda so, out: deb(_summed_wrongly(tar({NAME: so}))), "check sum"),
    "more after its end": (lambda so, out: tar({NAME: so}) + b"more", "check sum"),
    "no package": (lambda so, out: b"text\n" * 100, "expected a package"),
    "empty": (lambda so, out: b"", "or a shared library, found an empty file"),
}


def _summed_wrongly(gzipped: bytes) -> bytes:
    return _damaged(gzipped, len(gzipped) - 8, "<L", struct.unpack("<L", gzipped[-8:-4])[0] ^ 1)


def _libc_with_doubles(folder: Path) -> dict[str, bytes]:
    return {"lib/libc.so.6": packages.library(folder, "void gnu_get_libc_version(void) {}", "libc.so.6"),
            "lib/ld.so": packages.library(folder, "", "ld-linux-x86-64.so.2", "-Wl,-e,malloc"),
            **{f"lib/{i}": packages.library(folder, f"int of_{i};", "libm.so.6") for i in ("a", "b")}}


def _needing(folder: Path) -> bytes:
    """One that another of its package serves."""
    (folder / "libother.so").write_bytes(packages.library(folder, "", "libother.so"))
    return packages.library(folder, "void mi_process_info(void) {}\nint mi_version(void) { return 30600; }", "libmimalloc.so.3",
                            "-Wl,--no-as-needed", str(folder / "libother.so"))


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_packages_are_refused(added: Added, library: bytes, tmp_path: Path, case: str) -> None:
    make, said = HOSTILE[case]
    contents = make(library, tmp_path)
    done = added.add(contents, name="bad.deb")
    text = done.stderr.decode()
    assert done.returncode == 3 and said in text, text
    assert text.endswith("\n") and text[:-1].isprintable() and "bad.deb: " in text
    assert added.there() == [] and not added.listed()
    assert not any("outside" in path.name for path in tmp_path.parent.rglob("outside*"))


def test_nothing_is_written_through_a_link(added: Added, library: bytes, tmp_path: Path) -> None:
    """Links are not followed, and not made: the library is taken for what it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    links = [entry("./usr", tarfile.SYMTYPE, str(outside)), entry("./libmimalloc.so.3", tarfile.SYMTYPE, str(outside / "x"))]
    assert added.added(tar({NAME: library, "./libmimalloc.so.3": library}, *links)) == "mimalloc@3.6.0"
    assert not list(outside.iterdir())
    assert not any(path.is_symlink() for path in added.all.rglob("*"))


def test_names_are_printed_in_letters(added: Added, library: bytes, tmp_path: Path) -> None:
    """The file's own name, and a name that is no UTF-8."""
    path = tmp_path / "a\x1b[2J\n\udcff.deb"
    path.write_bytes(deb(tar({NAME: library})))
    done = added.verb("add", path)
    assert done.returncode == 0 and b"\x1b" not in done.stdout + done.stderr
    assert b"\x1b" not in added.verb().stdout and added.listed()["mimalloc@3.6.0"]["added"]["source"] in (None, "a\x1b[2J\n\udcff.deb")
    path.write_bytes(deb(tar({LIB + "x\udcff.so": packages.library(tmp_path, "", "libmy.so")})))
    done = added.verb("add", path)
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1 and b"\x1b" not in done.stderr and b"x\\xff.so" in done.stderr


def test_a_soname_leads_nowhere(added: Added, tmp_path: Path) -> None:
    assert added.added(packages.mimalloc(tmp_path, soname="../../../outside")) == "mimalloc@3.6.0"
    assert sorted(os.listdir(added.all / "mimalloc@3.6.0")) == ["allocator.json", "libmimalloc.so"]
    added.verb("remove", "mimalloc@3.6.0")
    assert added.added(packages.mimalloc(tmp_path, soname="allocator.json")) == "mimalloc@3.6.0"


@pytest.mark.parametrize(("path", "found"), [("/proc/self/pagemap", "an empty file"), ("sparse", "a file of more than 2 GiB"), ("", "a folder"),
                                             ("/dev/null", "a pipe, socket or device")])
def test_what_has_no_end_or_nothing_is_not_read(added: Added, tmp_path: Path, path: str, found: str) -> None:
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 42)
    done = added.verb("add", tmp_path / path)
    assert done.returncode == 3 and done.stderr.decode().endswith(f"or a shared library, found {found}\n") and not added.there()


def test_no_pipe_is_waited_for(added: Added, library: bytes) -> None:
    for file in ("allocator.json", "libmimalloc.so.3"):
        added.added(library)
        (added.all / "mimalloc@3.6.0" / file).unlink()
        os.mkfifo(added.all / "mimalloc@3.6.0" / file)
        assert added.verb().returncode == 1
        assert added.verb("remove", "mimalloc@3.6.0").returncode == 0 and added.there() == []


def test_a_link_to_nothing_is_said_and_removed(added: Added, library: bytes) -> None:
    added.added(library)
    (added.all / "mimalloc@9.9").symlink_to("nothing")
    done = added.verb()
    assert done.returncode == 1 and b"mimalloc@9.9: expected a folder" in done.stderr
    assert added.verb("remove", "mimalloc@9.9").returncode == 0 and added.there() == ["mimalloc@3.6.0"]


def test_nothing_is_added_where_it_could_not_be_loaded(tools: Tools, tmp_path: Path, library: bytes) -> None:
    (tmp_path / "a b").mkdir()
    done = Added(tools, tmp_path / "a b").add(library)
    assert done.returncode == 1 and b"without space or colon" in done.stderr
    added = Added(tools, tmp_path)
    added.all.mkdir(parents=True)
    added.all.chmod(0o777)
    assert b"only you or root" in added.add(library).stderr and added.there() == []


# ---- complete or not at all ----

def test_a_full_disk_leaves_nothing(added: Added, library: bytes) -> None:
    path = added.folder / "package"
    path.write_bytes(deb(tar({NAME: library + bytes(1 << 20)})))
    done = subprocess.run(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", added.tools.heaptape, "allocators", "add", path],
                          env=clean_environment(added.env), capture_output=True, check=False, timeout=60)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"File too large" in done.stderr and added.there() == []


def test_a_folder_that_cannot_be_locked_ends_in_one_line(added: Added, library: bytes) -> None:
    path = added.folder / "package"
    path.write_bytes(library)
    source = "int *__errno_location(void);\nint flock(int fd, int how) { (void)fd, (void)how; *__errno_location() = 37; return -1; }\n"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", added.folder / "flock.so", "-x", "c", "-"], check=True, input=source.encode(), timeout=60)
    done = run([added.tools.heaptape, "allocators", "add", path], env=added.env | {"LD_PRELOAD": str(added.folder / "flock.so")}, timeout=20)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"No locks available" in done.stderr and added.there() == []


def test_one_killed_leaves_nothing_that_counts(added: Added, library: bytes) -> None:
    path = added.folder / "package"
    path.write_bytes(deb(tar({"./more": os.urandom(8 << 20), NAME: library + os.urandom(8 << 20)}, compression="")))
    command = [added.tools.heaptape, "allocators", "add", path]
    for delay_ms in range(0, 100, 20):
        process = subprocess.Popen(command, env=clean_environment(added.env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        if "mimalloc@3.6.0" in added.there():
            assert (added.all / "mimalloc@3.6.0" / "libmimalloc.so.3").stat().st_size == len(library) + (8 << 20)
            added.verb("remove", "mimalloc@3.6.0")
        assert not added.listed()
    assert added.verb("add", path).returncode == 0 and added.there() == ["mimalloc@3.6.0"], "what was left is swept"


def test_two_at_once_both_end_well(added: Added, library: bytes) -> None:
    path = added.folder / "package"
    path.write_bytes(deb(tar({NAME: library + os.urandom(4 << 20)}, compression="")))
    command = [added.tools.heaptape, "allocators", "add", path]
    started = [subprocess.Popen(command, env=clean_environment(added.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.wait(timeout=60) for process in started] == [0] * 4
    for process in started:
        process.communicate(timeout=60)
    assert added.there() == ["mimalloc@3.6.0"]


# ---- sources ----

SOURCES = {
    "mimalloc-3.9.9/src/static.c": b"#pragma GCC visibility push(default)\n" + packages.LIBRARY.encode()
    + b'#include "mimalloc.h"\nvoid mi_process_info(void) {}\nint mi_version(void) { return VERSION; }\n',
    "mimalloc-3.9.9/include/mimalloc.h": b"#define VERSION 30909\n"}


def sources(**more: bytes) -> bytes:
    return tar({**SOURCES, **more}, entry("mimalloc-3.9.9/link", tarfile.SYMTYPE, "/"))


def test_sources_are_built_when_asked(added: Added) -> None:
    done = added.add(sources())
    assert done.returncode == 3 and b"--build" in done.stderr and not added.there()
    assert added.added(sources(), "--build", name="mimalloc-3.9.9.tar.gz") == "mimalloc@3.9.9"
    assert sorted(os.listdir(added.all / "mimalloc@3.9.9")) == ["allocator.json", "libmimalloc.so"]
    broken = added.add(sources(**{"mimalloc-3.9.9/include/mimalloc.h": b"#error broken\n"}), "--build")
    assert broken.returncode == 1 and b"building it failed: cc" in broken.stderr and added.there() == ["mimalloc@3.9.9"]


@pytest.mark.parametrize(("more", "said"), [
    ({"mimalloc-3.9.9/../../../../outside": b"x"}, "leads out of it"), ({"/outside": b"x"}, "leads out of it"),
    ({"other/file": b"x"}, "all files in one folder"), ({"mimalloc-3.9.9/link/tmp/outside": b"x", "mimalloc-3.9.9/link": b"x"}, "cannot unpack"),
    ({"mimalloc-3.9.9/" + "x/" * 33 + "x": b""}, "32 folders deep"), ({"mimalloc-3.9.9/" + f"{'x' * 200}/" * 6 + "x": b""}, "1024 bytes"),
    pytest.param({f"mimalloc-3.9.9/{i}" + f"/{i}" * 30 + "/x": b"" for i in range(600)}, "16384 folders", marks=pytest.mark.thorough)])
def test_hostile_sources_are_refused(added: Added, more: dict[str, bytes], said: str) -> None:
    done = added.add(sources(**more), "--build")
    assert done.returncode == 3 and said in done.stderr.decode() and not added.there()
    assert not Path("/tmp/outside").exists()
