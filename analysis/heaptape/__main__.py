# SPDX-License-Identifier: Apache-2.0
"""`python -m heaptape VERB`, which is what `heaptape VERB` becomes, and `heaptape-analysis VERB`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """A verb. Returns its exit status."""
    from .command_line import main as verb

    return verb(words)


def run() -> int:
    """The same, for a program that is nothing else."""
    if sys.argv[1:2] == ["judge"]:  # no verb: `replay` starts it, and talks to it
        from .judge.serve import main as judge

        os._exit(judge(sys.argv[2:]))  # all is printed: nothing else that Python does at its end is
    from .command_line import run_program

    return run_program()


if __name__ == "__main__":
    sys.exit(run())
