# SPDX-License-Identifier: Apache-2.0
"""Runs a Python script while memray records it. bench/figures/record.py starts it.

`memray run` records the same, but first loads parts that only draw tables: 0.3 s of CPU time that a
short program would seem to pay for recording.

Usage: run_in_memray.py FOLDER_OF_MEMRAY python|native OUTPUT SCRIPT [ARGUMENT...]
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

modules, stacks, output, script = sys.argv[1:5]
# At the end, so that the script finds its own modules as it does alone.
sys.path.append(modules)
import memray  # noqa: E402

sys.argv[:] = sys.argv[4:]
sys.path[0] = str(Path(script).resolve().parent)
with memray.Tracker(output, native_traces=stacks == "native"):
    runpy.run_path(script, run_name="__main__")
