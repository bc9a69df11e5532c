"""What the Python verbs find around them: packages that may be missing, and terminals that know ASCII only. Needs neither."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

PLAIN = {
    "µ": "u", "×": "x", "–": "-", "—": "-", "−": "-", "“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "≥": ">=", "≤": "<=", "±": "+-",
    "→": "->", "←": "<-", "─": "-", "━": "-", "│": "|", "\u00a0": " ",
}
"""Characters of our own sentences and tables, and their replacements where a terminal can't print them."""

EXTRAS = {"dask": "fleet", "distributed": "fleet", "optuna": "tune", "sqlalchemy": "tune", "pyarrow": "parquet", "protobuf": "pprof"}
"""By package, the extra of ours that brings it (pyproject.toml): what one verb alone needs."""

_ERRORS = "heaptape.plain"


def missing_package(error: ImportError) -> str:
    """One line that says what to do."""
    name = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and name and name != "heaptape":
        return f"the Python package {name} is missing: {_how_to_install(name)}"
    what = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{sys.executable} can't load {name or 'a package'}: {what}; name another interpreter by $HEAPTAPE_PYTHON"


def _how_to_install(name: str) -> str:
    """Where the distribution forbids pip in its own folders: an environment that sees what is there."""
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        folder = "~/.local/share/heaptape-python"
        return (f"{sys.executable} -m venv --system-site-packages {folder} && {folder}/bin/pip install {' '.join(_brought_with(name))}; "
                f"then HEAPTAPE_PYTHON={folder}/bin/python3")
    return f"{sys.executable} -m pip install {_to_install(name)}; or name another interpreter by $HEAPTAPE_PYTHON"


def _brought_with(name: str) -> list[str]:
    """The packages of the same extra."""
    return [package for package in EXTRAS if EXTRAS[package] == EXTRAS.get(name)] or [name]


def _to_install(name: str) -> str:
    """The extra that brings a package; its packages by name where pip does not know this very package and would look for
    another of its name."""
    from importlib import metadata  # a quarter of what a verb takes to start

    extra = EXTRAS.get(name)
    if extra is None:
        return name
    try:
        metadata.distribution("heaptape")
    except metadata.PackageNotFoundError:
        return f"{' '.join(_brought_with(name))} (the extra heaptape[{extra}])"
    return f"'heaptape[{extra}]'"


def terminal_columns(stream: Any) -> int:
    """How wide what is printed there may be: $COLUMNS, else the terminal's width; 0 where nothing is to be folded."""
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]):
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size((0, 0)).columns if stream.isatty() else 0


def speak_plainly() -> None:
    """Let nothing that is printed end a verb: what the terminal can't show is shown by other characters. Who asks for the C
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
