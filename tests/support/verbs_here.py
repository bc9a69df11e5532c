# SPDX-License-Identifier: Apache-2.0
"""The Python verbs run in this process: what they print and how they end, without a second of imports for each."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path


from heaptape.__main__ import main


def run_here(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    out, said = io.StringIO(), io.StringIO()
    words = [str(word) for word in arguments]
    before = os.getcwd()
    os.chdir(cwd)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            status = main(words)
        except SystemExit as end:  # argparse
            status = int(end.code or 0)
        finally:
            os.chdir(before)
    return subprocess.CompletedProcess(words, status, out.getvalue(), said.getvalue())
