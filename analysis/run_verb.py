# SPDX-License-Identifier: Apache-2.0
"""Runs a verb with the package beside this file, by any interpreter that has what the package needs. `python -m heaptape`
would find modules of the current folder first."""

import sys

from heaptape.__main__ import run

# The workers of fleet import this file again.
if __name__ == "__main__":
    sys.exit(run())
