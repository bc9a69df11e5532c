# SPDX-License-Identifier: Apache-2.0
"""The recorders that bench/figures/record.py compares: where they are found and how each is run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from bench.programs.workloads import HERE as PROGRAMS
from bench.programs.workloads import Unavailable, Workload

NAMES = ("untraced", "null", "ring", "reference", "heaptape", "sites", "memusage", "heaptrack", "lttng",
         "memray", "memray-native")
LIBRARY_FOLDERS = [Path(root, part) for root in ("/usr/local", "/usr", "/")
                   for part in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu")]


def find_library(name: str) -> Path:
    for folder in LIBRARY_FOLDERS:
        if (folder / name).exists():
            return folder / name
    raise Unavailable(f"{name} is not installed")


class Recorder:
    """One way to run a program. The base class runs it untraced."""

    name = "untraced"
    how = "the program alone"
    # False where valgrind can't run it, or would count a command besides the program.
    counted = True

    def check(self, _workload: Workload) -> None:
        """Raises Unavailable if it can't record this program."""

    def command(self, workload: Workload, _folder: Path) -> list[str]:
        return workload.command

    def environment(self, _folder: Path) -> dict[str, str]:
        """What to set for a run that leaves its output in this folder."""
        return {}

    def before_run(self, _folder: Path) -> None: ...

    def after_run(self) -> int:
        """Events that this run lost, as the recorder itself says."""
        return 0

    def close(self) -> None: ...


class Preloaded(Recorder):
    """A library in LD_PRELOAD and one variable that names its output."""

    def __init__(self, name: str, library: Path, variable: str = "", file: str = "",
                 more: dict[str, str] | None = None, remark: str = "", counted: bool = True) -> None:
        if not library.exists():
            raise Unavailable(f"{library} was not built")
        self.name, self.library, self.variable, self.file = name, library, variable, file
        self.more, self.counted = more or {}, counted
        words = [f"LD_PRELOAD={library.name}"]
        if variable:
            words.append(f"{variable}={'FILE' if file else 'FOLDER'}")
        words += [f"{key}={value}" for key, value in self.more.items()]
        self.how = " ".join(words) + (f" ({remark})" if remark else "")

    def environment(self, folder: Path) -> dict[str, str]:
        output = {self.variable: str(folder / self.file)} if self.variable else {}
        return {"LD_PRELOAD": str(self.library), **output, **self.more}


class Lttng(Recorder):
    """LTTng-UST's wrapper of libc with a session daemon of our own."""

    name = "lttng"
    how = ("LD_PRELOAD=liblttng-ust-libc-wrapper.so, events lttng_ust_libc:*, one discard-mode "
           "channel of 8 x 4 MiB per CPU, a session per run; its consumer daemon's CPU time is "
           "not counted")
    counted = False
    run_folder = Path("/run/lttng")

    def __init__(self) -> None:
        self.library = find_library("liblttng-ust-libc-wrapper.so.1")
        for program in ("lttng", "lttng-sessiond"):
            if not shutil.which(program):
                raise Unavailable(f"{program} is not installed")
        if os.geteuid() == 0 and (self.run_folder / "lttng-sessiond.pid").exists():
            raise Unavailable(f"a session daemon of somebody else's is using {self.run_folder}")
        # Sockets have short names: never below a deep folder.
        self.home = Path(tempfile.mkdtemp(prefix="lttng-home."))
        self.settings = {"LTTNG_HOME": str(self.home)}
        self.had_run_folder = self.run_folder.exists()
        self.log = (self.home / "daemon.log").open("wb")
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=self.all_settings(),
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.wait_for_daemon()

    def all_settings(self) -> dict[str, str]:
        return os.environ | self.settings

    def wait_for_daemon(self) -> None:
        for _ in range(100):
            done = subprocess.run(["lttng", "--no-sessiond", "list"], env=self.all_settings(),
                                  capture_output=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.1)
        said = (self.home / "daemon.log").read_text(errors="replace").strip().splitlines()
        self.close()
        raise Unavailable("its session daemon does not start" + (f": {said[-1]}" if said else ""))

    def lttng(self, *words: str) -> str:
        done = subprocess.run(["lttng", "--no-sessiond", *words], env=self.all_settings(),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode:
            raise SystemExit(f"record: lttng {' '.join(words)}: {done.stdout}")
        return done.stdout

    def environment(self, _folder: Path) -> dict[str, str]:
        # Without the wait for the registration a short program would be over before it is traced.
        return {"LD_PRELOAD": str(self.library), "LTTNG_UST_REGISTER_TIMEOUT": "-1",
                **self.settings}

    def before_run(self, folder: Path) -> None:
        self.lttng("create", "measured", f"--output={folder}")
        self.lttng("enable-channel", "--userspace", "heap", "--discard", "--subbuf-size=4M",
                   "--num-subbuf=8")
        self.lttng("enable-event", "--userspace", "--channel=heap", "lttng_ust_libc:*")
        self.lttng("start")

    def after_run(self) -> int:
        self.lttng("stop")
        said = self.lttng("list", "measured")
        self.lttng("destroy", "measured")
        found = re.search(r"Discarded events:\s*(\d+)", said)
        if not found:
            raise SystemExit("record: lttng does not say how many events it discarded")
        return int(found[1])

    def close(self) -> None:
        self.daemon.terminate()
        self.daemon.wait()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
        if os.geteuid() == 0 and not self.had_run_folder:
            shutil.rmtree(self.run_folder, ignore_errors=True)


@cache
def memray_folder(python: str) -> str:
    """Where this interpreter can load memray from: its own modules, or those of the memray on PATH."""
    def ask(interpreter: str | Path, *code: str) -> str | None:
        done = subprocess.run([interpreter, "-c", "\n".join([*code, "import memray", "print(memray.__path__[0])"])],
                              capture_output=True, text=True, check=False)
        return None if done.returncode else str(Path(done.stdout.strip()).parent)

    if own := ask(python):
        return own
    program = shutil.which("memray")
    if not program:
        raise Unavailable(f"memray is neither on PATH nor a module of {python}")
    beside = Path(program).resolve().parent / "python3"
    other = ask(beside) if beside.exists() else None
    if not other or not ask(python, "import sys", f"sys.path.append({other!r})"):
        raise Unavailable(f"{python} can't load the memray of {program}")
    return other


class Memray(Recorder):
    """memray around a Python script. It starts inside the interpreter, so it records no other program."""

    counted = False

    def __init__(self, name: str, stacks: str, remark: str) -> None:
        self.name, self.stacks = name, stacks
        self.how = f"memray.Tracker around the script, {remark}; loading memray counts"

    def check(self, workload: Workload) -> None:
        python, *arguments = workload.command
        if not (re.fullmatch(r"python[\d.]*", Path(python).name) and arguments and Path(arguments[0]).is_file()):
            raise Unavailable("records only commands of the form `python3 SCRIPT [ARGUMENT...]`")
        memray_folder(python)

    def command(self, workload: Workload, folder: Path) -> list[str]:
        python, *script = workload.command
        return [python, str(PROGRAMS / "run_in_memray.py"), memray_folder(python), self.stacks,
                str(folder / "memray.bin"), *script]


class Named(Recorder):
    """What a reader gives by path: variables, then a library to preload or a command to start the program with."""

    def __init__(self, name: str, text: str) -> None:
        words = shlex.split(text)
        self.name, self.how = name, text
        self.variables: dict[str, str] = {}
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            key, _, value = words.pop(0).partition("=")
            self.variables[key] = value
        if words and re.search(r"\.so(\.\d+)*$", words[0]):
            library = Path(words.pop(0)).resolve()
            if not library.is_file():
                raise Unavailable(f"there is no {library}")
            self.variables["LD_PRELOAD"] = str(library)
        if words and not shutil.which(words[0]):
            raise Unavailable(f"there is no program {words[0]}")
        self.words, self.counted = words, not words

    def command(self, workload: Workload, folder: Path) -> list[str]:
        return [word.replace("{}", str(folder)) for word in self.words] + workload.command

    def environment(self, folder: Path) -> dict[str, str]:
        return {key: value.replace("{}", str(folder)) for key, value in self.variables.items()}


def make_recorder(name: str, build: Path) -> Recorder:
    """Raises Unavailable where it cannot be run here."""
    bench = build / "bench"
    match name:
        case "untraced":
            return Recorder()
        case "null":
            return Preloaded(name, bench / "libnull_preload.so",
                             remark="forwards and does nothing else")
        case "ring":
            return Preloaded(name, bench / "libreference_recorder.so", "REFERENCE_OUT",
                             more={"REFERENCE_RING": "1"},
                             remark="the reference, but it writes one chunk over and over: no "
                                    "pages to get from the kernel, and nothing is kept")
        case "reference":
            return Preloaded(name, bench / "libreference_recorder.so", "REFERENCE_OUT",
                             remark="32 bytes and a time stamp per call into a mapped file, a "
                                    "realloc is one record; nothing else")
        case "heaptape":
            return Preloaded(name, build / "libmalloc_wrap.so", "MALLOC_WRAP_OUT")
        case "sites":
            return Preloaded(name, build / "libmalloc_wrap.so", "MALLOC_WRAP_OUT", more={"MALLOC_WRAP_SITES": "64"},
                             remark="heaptape with call sites")
        case "memusage":
            return Preloaded(name, find_library("libmemusage.so"), "MEMUSAGE_OUTPUT",
                             "memusage.dat", remark="as memusage --data=FILE runs it; no addresses")
        case "heaptrack":
            return Preloaded(name, find_library("heaptrack/libheaptrack_preload.so"),
                             "DUMP_HEAPTRACK_OUTPUT", "heaptrack.raw",
                             remark="as heaptrack --raw runs it, without the compressor process",
                             counted=False)
        case "lttng":
            return Lttng()
        case "memray":
            return Memray(name, "python", "which keeps Python's stacks")
        case "memray-native":
            return Memray(name, "native", "which keeps Python's and C's stacks")
    raise ValueError(name)
