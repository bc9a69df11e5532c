# SPDX-License-Identifier: Apache-2.0
"""The programs of the compatibility table: those that run and end, and servers.

Every program does real work and prints something that depends on all of it, so that a call that
went wrong shows up in the output. Times, process ids and random keys are kept out of the output.
What the programs run lies in the folder work/, which is copied to $FILES.
"""

from __future__ import annotations

from dataclasses import dataclass


def bash(function: str, *more: str) -> tuple[str, ...]:
    return "bash", "-eu", "$FILES/programs.sh", function, *more


def server(function: str) -> tuple[str, ...]:
    return "bash", "-eu", "$FILES/servers/servers.sh", function


def figures(lines: int) -> str:
    return f'python3 "$FILES/sources/make_figures.py" {lines} >figures'


@dataclass(frozen=True)
class Program:
    """One row. It runs in an empty folder, with $INPUT (what `prepare` made) and $PORT set."""

    name: str
    does: str
    needs: tuple[str, ...]  # names of executables
    packages: tuple[str, ...]  # of Debian, that bring them
    version: tuple[str, ...]
    command: tuple[str, ...]
    prepare: str = ""  # run by bash, once and unrecorded, in the folder $INPUT
    status: int = 0  # what the program ends with when all went well
    ignore: tuple[tuple[str, str], ...] = ()  # pattern and replacement: output that varies
    unprivileged: bool = False  # refuses to run as root
    out_of_reach: str = ""  # why the shim cannot see this one
    in_part: str = ""  # why it sees only some calls, so that anomalies are expected
    note: str = ""


RUST_IGNORE = ((r"thread 'main' \(\d+\)", "thread 'main' (N)"),)
JQ = ("group_by(.name) | map({name: .[0].name, n: length, t: (map(.tags[]) | unique)})"
      " | sort_by(-.n) | .[0:20]")

ONE_SHOT = [
    Program("bash", "loops, arrays, subshells, a coprocess", ("bash",), ("bash",),
            ("bash", "--version"), bash("bash_work"), status=7),
    Program("python3", "json in 4 threads, subprocess, a pool of forked workers", ("python3",),
            ("python3",), ("python3", "--version"), ("python3", "$FILES/sources/python_work.py"),
            note="blocks up to 512 bytes come from Python's own pools"),
    Program("perl", "hashes, regular expressions, fork", ("perl",), ("perl",),
            ("perl", "-e", "print substr $^V, 1"), ("perl", "$FILES/sources/perl_work.pl")),
    Program("ruby", "hashes, threads, fork", ("ruby",), ("ruby",), ("ruby", "--version"),
            ("ruby", "$FILES/sources/ruby_work.rb")),
    Program("node", "json, worker threads, zlib, crypto", ("node",), ("nodejs",),
            ("node", "--version"), ("node", "$FILES/sources/node_work.js"),
            note="V8 manages its own heap; the malloc calls of node and its libraries are recorded"),
    Program("java", "javac, then collections in 4 threads", ("java", "javac"),
            ("default-jdk-headless",), ("java", "--version"), bash("java_work"), status=4,
            note="the JVM manages the Java heap itself; its malloc calls are recorded"),
    Program("php", "arrays, json, regular expressions", ("php",), ("php-cli",),
            ("php", "--version"), ("php", "-n", "-d", "memory_limit=-1", "$FILES/sources/php_work.php"),
            status=9, note="PHP takes small blocks from its own chunks"),
    Program("php with extensions", "the same and xml", ("php",), ("php-cli", "php-xml"),
            ("php", "--version"), ("php", "$FILES/sources/php_work.php", "xml"), status=8, in_part=(
                "PHP loads extensions with RTLD_DEEPBIND: their own calls of malloc and free go to "
                "libc directly and are not recorded")),
    Program("lua", "tables, strings, coroutines", ("lua5.4",), ("lua5.4",), ("lua5.4", "-v"),
            ("lua5.4", "$FILES/sources/lua_work.lua"), status=3),
    Program("make with gcc", "heaptape configured by cmake, built by make -j2",
            ("cmake", "make", "gcc", "ld"), ("cmake", "make", "gcc"), ("gcc", "--version"),
            bash("build_self", "Unix Makefiles", "make", "-s", "-C", "tree", "-j2")),
    Program("ninja with gcc", "the same by ninja -j2", ("cmake", "ninja", "gcc", "ld"),
            ("cmake", "ninja-build", "gcc"), ("ninja", "--version"),
            bash("build_self", "Ninja", "ninja", "-C", "tree", "-j2")),
    Program("g++", "a file full of templates, and what it makes of it", ("g++",), ("g++",),
            ("g++", "--version"), bash("compile_and_run", "g++", "-std=c++17", "-O2", "-g",
                                       "-pthread", "$FILES/sources/templates.cpp")),
    Program("clang", "C with -O2, and what it makes of it", ("clang",), ("clang",),
            ("clang", "--version"), bash("compile_and_run", "clang", "-O2", "-g",
                                         "-Wno-everything", "$FILES/sources/many_functions.c")),
    Program("rustc", "compiles a program", ("rustc",), ("rustc",), ("rustc", "--version"),
            bash("compile_and_run", "rustc", "-O", "$FILES/sources/rust_work.rs"),
            status=6, ignore=RUST_IGNORE, in_part=(
                "rustc's executable contains jemalloc, which precedes any preloaded malloc; the linker "
                "and the program are recorded")),
    Program("rust program", "maps and boxes in 4 threads", ("rustc",), ("rustc",),
            ("rustc", "--version"), ("../input/work",),
            'rustc -O "$FILES/sources/rust_work.rs" -o work', status=6, ignore=RUST_IGNORE),
    Program("go program with cgo", "goroutines that call C", ("go", "gcc"), ("golang-go", "gcc"),
            ("go", "version"), ("../input/work",),
            'bash -eu "$FILES/programs.sh" go_build "$FILES/sources/cgo_work.go" 1',
            note="Go manages its own heap; the malloc calls of the C part are recorded"),
    Program("go program", "goroutines, json", ("go",), ("golang-go",), ("go", "version"),
            ("../input/work",), 'bash -eu "$FILES/programs.sh" go_build "$FILES/sources/go_work.go" 0',
            out_of_reach="statically linked, with its own allocator"),
    Program("git", "commits, merge, clone, gc, repack, fsck, blame", ("git",), ("git",),
            ("git", "--version"), bash("git_work")),
    Program("sqlite3", "inserts, an index, aggregates, VACUUM", ("sqlite3",), ("sqlite3",),
            ("sqlite3", "--version"), ("sqlite3", "work.db", ".read $FILES/sources/sqlite_work.sql")),
    Program("vim", "an ex script: substitute, sort, dictionaries, undo", ("vim",), ("vim",),
            ("vim", "--version"), bash("vim_work"), figures(8000)),
    Program("ffmpeg", "encodes and decodes 2 s of video and sound", ("ffmpeg",), ("ffmpeg",),
            ("ffmpeg", "-version"), bash("ffmpeg_work")),
    Program("imagemagick", "swirl, blur, quantize, jpeg", ("convert-im6.q16",), ("imagemagick",),
            ("convert-im6.q16", "--version"), bash("imagemagick_work")),
    Program("openssl", "speed, rsa keys, certificates, encryption", ("openssl",), ("openssl",),
            ("openssl", "version"), bash("openssl_work"), figures(200_000)),
    Program("ssh-keygen", "three keys and a signature", ("ssh-keygen",), ("openssh-client",),
            ("ssh", "-V"), bash("ssh_keygen_work"), figures(1000),
            note="the time to find primes is random"),
    Program("tar and xz", "packs and unpacks headers of /usr/include", ("tar", "xz"),
            ("tar", "xz-utils"), ("xz", "--version"), bash("tar_work")),
    Program("sort", "a large file by two keys, through temporary files", ("sort",),
            ("coreutils",), ("sort", "--version"), bash("sort_work"), figures(400_000)),
    Program("coreutils", "find, xargs, grep, sed, uniq, split", ("find", "grep", "sed"),
            ("coreutils", "findutils", "grep", "sed"), ("sort", "--version"),
            bash("coreutils_work"), figures(100_000)),
    Program("gawk", "sums by key, substitutions, a pipe", ("gawk",), ("gawk",),
            ("gawk", "--version"), ("gawk", "-f", "$FILES/sources/gawk_work.awk", "../input/figures"),
            figures(300_000)),
    Program("jq", "groups and sorts 20,000 objects", ("jq",), ("jq",), ("jq", "--version"),
            ("jq", "-c", JQ, "../input/objects.json"),
            'python3 "$FILES/sources/make_objects.py" >objects.json'),
    Program("gdb", "a breakpoint, a backtrace, a run to the end", ("gdb", "gcc"), ("gdb", "gcc"),
            ("gdb", "--version"), ("gdb", "-q", "-batch", "-nx", "-x", "$FILES/sources/gdb_work.gdb",
                                   "../input/work"),
            'gcc -g -O1 "$FILES/sources/gdb_target.c" -o work',
            ignore=((r"process \d+", "process N"), (r"0x[0-9a-f]+", "0x0"),
                    (r"\[(New Thread|New LWP|Thread|LWP) [^\n]*\]\n", "")),
            note="gdb says that there are new threads: the recorder's, which live for a moment"),
    Program("file", "the types of all programs in /usr/bin", ("file",), ("file",),
            ("file", "--version"), ("bash", "-c", "file /usr/bin/* | md5sum")),
    Program("man", "formats a page, under man's seccomp filter", ("man", "groff"), ("man-db",),
            ("man", "--version"),
            ("bash", "-c", 'for i in 1 2 3; do man -l -Tutf8 "$INPUT/page.1" | md5sum; done'),
            'python3 "$FILES/sources/make_page.py" >page.1'),
]

SERVERS = [
    Program("redis", "server with io threads, bgsave's fork, redis-benchmark, shutdown",
            ("redis-server", "redis-cli", "redis-benchmark"), ("redis-server", "redis-tools"),
            ("redis-cli", "--version"), server("redis_work")),
    Program("memcached", "4 threads, sets and gets from 4 clients, SIGTERM",
            ("memcached", "python3"), ("memcached",), ("memcached", "--version"),
            server("memcached_work")),
    Program("nginx", "master and 2 workers, gzip, proxy, reload, quit",
            ("nginx", "curl", "python3"), ("nginx-light", "curl"), ("nginx", "-v"),
            server("nginx_work")),
    Program("postgres", "initdb, pgbench, parallel queries, pg_dump, fast stop",
            ("postgres", "initdb", "pgbench", "psql"), ("postgresql",), ("postgres", "--version"),
            server("postgres_work"), unprivileged=True),
    Program("tmux", "a detached session, keys, panes, kill-server", ("tmux",), ("tmux",),
            ("tmux", "-V"), server("tmux_work")),
    Program("curl", "fetches from python3 -m http.server", ("curl", "python3"), ("curl",),
            ("curl", "--version"), server("curl_work"), prepare="seq 1 3 900000 >figures"),
    Program("sshd", "logins by key, sftp, privilege separation", ("sshd", "ssh", "sftp"),
            ("openssh-server", "openssh-client"), ("ssh", "-V"), server("sshd_work"),
            prepare="seq 1 3 900000 >figures", note=(
                "sshd gives its sessions a clean environment: their commands are not recorded")),
]
