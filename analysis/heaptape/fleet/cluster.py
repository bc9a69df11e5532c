# SPDX-License-Identifier: Apache-2.0
"""Units of work on Dask's workers: one measured replay per worker at a time, begun again where a worker dies."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster, as_completed, get_worker
from distributed.scheduler import KilledWorker

from ..base.errors import HeaptapeError
from .unit import Outcome, Unit, run_unit

RESOURCE = "replay"
_CONNECT_TIMEOUT_S = 10
_PER_WORKER = 2
"""Units that a worker is given at once: the one it runs, and the next. What a worker has been given when it dies counts
as a failed attempt of that unit, so it is not given more."""

Tell = Callable[[str], None]


def run_here(unit: Unit) -> Outcome:
    """A worker calls this."""
    return run_unit(unit, str(get_worker().name))


@contextmanager
def open_client(scheduler: str | None, workers: int) -> Iterator[Any]:
    """A client of the scheduler at that address, or of so many workers on this machine, which end with it."""
    with ExitStack() as stack:
        # The worker's own memory is small, and its children's is not Dask's business.
        stack.enter_context(dask.config.set({"distributed.worker.memory.terminate": False,
                                             "distributed.admin.large-graph-warning-threshold": "1GiB"}))
        for name in ("distributed", "distributed.nanny", "distributed.scheduler", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield _connect(stack, scheduler, workers)


def _connect(stack: ExitStack, scheduler: str | None, workers: int) -> Any:
    try:
        if scheduler is not None:
            return stack.enter_context(Client(scheduler, timeout=_CONNECT_TIMEOUT_S))
        cluster = stack.enter_context(LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None,
            resources={RESOURCE: 1}, silence_logs=logging.CRITICAL))
        return stack.enter_context(Client(cluster))
    except (OSError, ValueError) as error:
        where = f"the scheduler {scheduler}" if scheduler else "local workers"
        raise HeaptapeError(f"{where}: {str(error).splitlines()[0] if str(error) else 'no answer'}") from error


def _able(client: Any) -> dict[str, str]:
    """Workers that may measure, by address, and the host of each."""
    known = client.scheduler_info(n_workers=-1)["workers"]
    return {address: str(worker.get("host", "")) for address, worker in known.items()
            if worker.get("resources", {}).get(RESOURCE, 0) >= 1}


def run_units(client: Any, units: list[Unit], take: Callable[[Unit, Outcome], None], tell: Tell) -> None:
    """Run all units; `take` gets each with its outcome, once, in the order in which they end."""
    waiting, done = deque(units), as_completed()
    running: dict[str, Unit] = {}
    able = _able(client)
    _tell_of(able, tell)

    def feed() -> None:
        while waiting and len(running) < _PER_WORKER * max(1, len(able)):
            unit = waiting.popleft()
            future = client.submit(run_here, unit, pure=False, resources={RESOURCE: 1})
            running[future.key] = unit
            done.add(future)

    feed()
    while running:
        future = next(done)
        unit = running.pop(future.key)
        take(unit, _outcome(future))
        before, able = able, _able(client)
        for address in sorted(set(before) - set(able)):
            tell(f"lost the worker {address}; other workers run its rounds again")
        feed()


def _tell_of(able: dict[str, str], tell: Tell) -> None:
    if not able:
        tell("waiting for a worker: dask worker ADDRESS --nthreads 1 --resources replay=1")
    for host, count in Counter(able.values()).items():
        if count > 1:
            tell(f"warning: {count} workers on {host} disturb each other: times are less exact than with one, memory is not")


def _outcome(future: Any) -> Outcome:
    try:
        outcome: Outcome = future.result()
        return outcome
    except CancelledError as error:
        raise HeaptapeError("lost the scheduler; run the same command to resume") from error
    except KilledWorker:
        return Outcome([], [], "every worker that began it died")
    except Exception as error:  # whatever a worker of another version may raise
        return Outcome([], [], f"{type(error).__name__}: {error}".splitlines()[0])
