# SPDX-License-Identifier: Apache-2.0
"""What the Python verbs find around them: packages that may be missing, and terminals that know ASCII only. Needs neither."""

from __future__ import annotations

import codecs
import importlib.util
import io
import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

PLAIN = {
    "µ": "u", "×": "x", "–": "-", "—": "-", "−": "-", "“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "≥": ">=", "≤": "<=", "±": "+-",
    "→": "->", "←": "<-", "─": "-", "━": "-", "│": "|", "\u00a0": " ",
}
"""Characters of our own sentences and tables, and their replacements where a terminal cannot print them."""

EXTRAS = {"dask": "fleet", "distributed": "fleet", "optuna": "tune", "sqlalchemy": "tune", "pyarrow": "parquet", "protobuf": "pprof"}
"""By package, the extra of ours that brings it (pyproject.toml): what one verb alone needs."""

_HERE = Path(__file__).resolve().parents[2]
_ERRORS = "heaptape.plain"


def missing_package(error: ImportError) -> str:
    """One line that says what to do."""
    name = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and name and name != "heaptape":
        return f"the Python package {name} is missing: {_how_to_install(name)}"
    what = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{sys.executable} cannot load {name or 'a package'}: {what}; name another interpreter by $HEAPTAPE_PYTHON"


def _how_to_install(name: str) -> str:
    """By package names: heaptape itself is in no index. In a checkout by the script that makes the environment which the front end
    takes by itself; where the distribution forbids pip in its own folders, an environment that sees what is there."""
    script = _HERE.parent / "setup.sh"
    if name in EXTRAS and script.is_file() and _chosen_by_the_front_end():
        return f"run {shlex.quote(str(script))} --extras"
    packages = " ".join(_brought_with(name))
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        folder = "~/.local/share/heaptape-python"
        first = "" if importlib.util.find_spec("ensurepip") else "apt-get install python3-venv && "
        return (f"{first}{sys.executable} -m venv --system-site-packages {folder} && {folder}/bin/pip install {packages}; "
                f"then HEAPTAPE_PYTHON={folder}/bin/python3")
    return f"{sys.executable} -m pip install {packages}; or name another interpreter by $HEAPTAPE_PYTHON"


def _chosen_by_the_front_end() -> bool:
    """Whether this interpreter is the one that `heaptape` takes where no other is named (replay/jobs/python_program.c)."""
    return not os.environ.get("HEAPTAPE_PYTHON") and Path(sys.argv[0]).resolve() == _HERE / "run_verb.py"


def _brought_with(name: str) -> list[str]:
    """The packages of the same extra."""
    return [package for package in EXTRAS if EXTRAS[package] == EXTRAS.get(name)] or [name]


def terminal_columns(stream: Any) -> int:
    """How wide what is printed there may be: $COLUMNS, else the terminal's width; 0 where nothing is to be folded."""
    columns = int(found[1]) if (found := re.match(r"\s*\+?([0-9]{1,9})", os.environ.get("COLUMNS", ""), re.ASCII)) else 0
    if columns:
        return columns
    return shutil.get_terminal_size((0, 0)).columns if stream.isatty() else 0


def speak_plainly() -> None:
    """Let nothing that is printed end a verb: what the terminal cannot show is shown by other characters. Who asks for the C
    locale by name gets ASCII, although Python would write UTF-8 there."""
    codecs.register_error(_ERRORS, _in_plain_words)
    ascii_only = os.environ.get("LC_ALL") in ("C", "POSIX") and not {"PYTHONIOENCODING", "PYTHONUTF8"} & os.environ.keys()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="ascii" if ascii_only else None, errors=_ERRORS)


def _in_plain_words(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(PLAIN.get(mark) or mark.encode("ascii", "backslashreplace").decode() for mark in found), error.end
