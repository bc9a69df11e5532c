"""`python -m heaptape VERB`, which is what `heaptape VERB` becomes, and `heaptape-analysis VERB`. A missing package is
reported in one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .base.environment import missing_package
from .base.errors import EXIT_FAILED


def _begin(function: str, *arguments: object) -> int:
    try:
        import numpy  # noqa: F401  # pandas would not say by name that it is missing

        from . import command_line
    except ImportError as error:
        verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        print(f"heaptape {verb}".rstrip() + f": {missing_package(error)}", file=sys.stderr)
        return EXIT_FAILED
    return int(getattr(command_line, function)(*arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    return _begin("main", arguments)


def run() -> int:
    """What `python -m heaptape` and `heaptape-analysis` run."""
    return _begin("run_program")


if __name__ == "__main__":
    sys.exit(run())
