# SPDX-License-Identifier: Apache-2.0
"""`python -m heaptape VERB`, which is what `heaptape VERB` becomes, and `heaptape-analysis VERB`."""

from __future__ import annotations

import sys

from .command_line import main, run_program

__all__ = ["main", "run"]

run = run_program

if __name__ == "__main__":
    sys.exit(run())
