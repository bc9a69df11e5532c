# SPDX-License-Identifier: Apache-2.0
"""The verbs in Python: their tables, and what runs them. A table needs no package but ours; a verb is loaded when it runs.

Exit status: 0 done; 1 the run failed; 2 bad usage; 3 bad input; 4 a condition of --fail-if holds; 5 one stayed undecided,
and none holds.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from . import options
from .base.environment import missing_package, speak_plainly
from .base.errors import EXIT_FAILED, HeaptapeError
from .base.text import printable
from .base.verb_parser import VerbParser
from .bisect import options as bisect_options
from .explain import options as explain_options
from .fleet import options as fleet_options
from .forecast import options as forecast_options
from .sites import options as sites_options
from .trial import options as trial_options
from .tune import options as tune_options
from .validate import options as validate_options

PARSERS: dict[str, Callable[[], VerbParser]] = {
    "try": trial_options.parser, "compare": options.compare_parser, "report": options.report_parser, "export": options.export_parser,
    "sites": sites_options.sites_parser, "diff": sites_options.diff_parser,
    "explain": explain_options.parser, "forecast": forecast_options.parser, "fleet": fleet_options.parser, "bisect": bisect_options.parser, "tune": tune_options.parser, "validate": validate_options.parser,
}


def _verb(name: str, options: Any) -> Callable[[Any], int | None]:
    if name == "explain" and not explain_options.is_of_trace(options):
        from .explain.running import (
            explain_running,  # where the process runs there may be no other package
        )
        return explain_running
    import numpy  # noqa: F401  # pandas would not say by name that it is missing

    # pandas before 2 says so, on standard error, where all values of a column are missing.
    warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)

    if name == "try":
        from .trial.verb import run_try
        return run_try
    if name == "sites":
        from .sites.verb import run_sites
        return run_sites
    if name == "diff":
        from .sites.diff import run_diff
        return run_diff
    if name == "forecast":
        from .forecast.verb import run_forecast
        return run_forecast
    if name == "bisect":
        from .bisect.verb import run_bisect
        return run_bisect
    if name == "fleet":
        from .fleet.verb import run_fleet
        return run_fleet
    if name == "tune":
        from .tune.verb import run_tune
        return run_tune
    if name == "validate":
        from .validate.verb import run_validate
        return run_validate
    from . import verbs
    return {"compare": verbs.run_compare, "report": verbs.run_report, "explain": verbs.run_explain, "export": verbs.run_export}[name]


def _front_end() -> VerbParser:
    parser = VerbParser("", ["VERB [ARGUMENT...]", "help --json"], f"The verbs in Python: {', '.join(PARSERS)}.",
                        examples=[("heaptape compare results.jsonl", "Compare the runs of a results file")])
    parser.add_argument("verb", choices=PARSERS, metavar="VERB")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    speak_plainly()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["help", "--json"]:
        print("".join(f"{json.dumps(make().table())}\n" for make in PARSERS.values()), end="")
        return 0
    verb = words[0] if words and words[0] in PARSERS else _front_end().parse_args(words).verb
    try:
        chosen = PARSERS[verb]().parse_args(words[1:])
        status = _verb(verb, chosen)(chosen)
        sys.stdout.flush()
    except HeaptapeError as error:
        print(f"heaptape {verb}: {printable(str(error))}", file=sys.stderr)
        _drop_unwritten()
        return error.exit_status
    except ImportError as error:
        print(f"heaptape {verb}: {missing_package(error)}", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; closing stderr too keeps the interpreter quiet about it.
        sys.stderr.close()
        return EXIT_FAILED
    except (MemoryError, OSError) as error:
        print(f"heaptape {verb}: {printable(str(error)) or type(error).__name__}", file=sys.stderr)
        _drop_unwritten()
        return EXIT_FAILED
    return int(status or 0)


class _StandardOutput(io.FileIO):
    """File descriptor 1. It names itself where it takes no more."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise HeaptapeError(f"standard output: cannot write: {error.strerror}") from error


def _name_stdout() -> None:
    """What cannot be printed is said as the verbs in C say it. If our caller closed stdout, no file that is opened gets its
    number."""
    old = sys.stdout
    if old is None:
        opened = os.open(os.devnull, os.O_RDONLY)
        os.dup2(opened, 1)
        if opened != 1:
            os.close(opened)
    buffer = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
    encoding, errors = (old.encoding, old.errors) if old is not None else ("utf-8", "strict")
    sys.stdout = io.TextIOWrapper(buffer, encoding, errors, line_buffering=os.isatty(1))


def _drop_unwritten() -> None:
    """Drops what stdout could not take. The interpreter would try it once more at its end, and complain with a status of its own."""
    try:
        sys.stdout.flush()
    except (HeaptapeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Ended(BaseException):
    """A signal wants us gone; what has been begun is removed on the way out."""


def run_program() -> int:
    """Does what main does, but signals that end it leave no half-written file behind, and end it as they would have."""
    deadly = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) != signal.SIG_IGN]
    ended_by = 0
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some parents leave it, it hides how a child ended

    def end(number: int, _frame: object) -> None:
        nonlocal ended_by
        ended_by = number
        for other in deadly:
            signal.signal(other, signal.SIG_IGN)
        raise _Ended

    for number in deadly:
        signal.signal(number, end)
    try:
        _name_stdout()
        return main()
    except _Ended:
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
        return EXIT_FAILED

