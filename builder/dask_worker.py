"""What runs in a worker of dask: the check that it makes the same bytes as its parent, the beginning, and one task.

A task that ends its worker is given to another by the scheduler. Every try writes down at the scheduler that it began, so that
the third isn't made, whatever the scheduler allows. A task whose parent is gone, or wants it no longer, ends when it next tells how
far it is: it would write beside the next build.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import builder
from builder.engines import MAX_TRIES, heard_by, outcome
from builder.errors import ClusterUnusable
from builder.factory import factory_digest, versions
from builder.words import counted

TELL_EVERY_S = 0.5
"""How often a worker sends what it was told: a message for every clip, from hundreds of workers, would keep the scheduler busy."""

FETCH_S = 60.0
_begun = threading.local()
"""The team that this thread has begun for: dask may do tasks in a new thread, whose pools of threads are its own."""


class _Unwanted(BaseException):
    """Nobody waits for this task any more."""


# -- is it a worker as its parent needs it? ---------------------------------------------------------------------------


def credentials() -> dict[str, str]:
    """What decides the bytes: versions by name, and a digest of the code."""
    return {**versions(), "code": factory_digest()}


def unfit(worker: Any, expected: Mapping[str, str]) -> list[str]:
    """What keeps a worker from making its parent's bytes, one line each; pins its threads.

    Parameters
    ----------
    worker
        A `distributed.Worker`.
    expected
        The parent's `credentials`.
    """
    mine = credentials()
    differ = [name for name in expected if name != "code" and mine.get(name) != expected[name]]
    faults = [f"has {name} {mine.get(name)}, this process has {expected[name]}" for name in differ]
    if not differ and mine["code"] != expected["code"]:
        faults = ["has other code of vocalgrad than this process: install the same commit"]
    if worker.state.nthreads != 1:
        faults.append(
            f"has {counted(worker.state.nthreads, 'thread')}, and Praat's random numbers are one process's: start it with --nthreads 1"
        )
    return faults + wide_pools()


def wide_pools() -> list[str]:
    """Pin this thread's numerical libraries to one thread each; those that don't follow."""
    import scipy.linalg  # noqa: F401 (loads its BLAS, beside numpy's)
    from threadpoolctl import threadpool_info, threadpool_limits

    builder.pin_threads()
    threadpool_limits(limits=1)
    wide = [pool for pool in threadpool_info() if pool["num_threads"] > 1]
    return [
        f"has {counted(pool['num_threads'], 'thread')} in {pool['internal_api']} ({pool['filepath']}): set OMP_NUM_THREADS=1"
        for pool in wide
    ]


def place_of(worker: Any) -> str:
    """A worker's name for people."""
    return f"worker {worker.name} at {worker.address} on {socket.gethostname()}"


# -- a task -----------------------------------------------------------------------------------------------------------


def packed(start: Callable[..., object], arguments: tuple[Any, ...]) -> bytes:
    """What workers do before their first task of a team, and what they must be, as text for `_begin`."""
    return zlib.compress(pickle.dumps((credentials(), pickle.dumps((start, arguments)))), 1)


def _begin(team: str, worker: Any) -> None:
    """Check this worker and begin, once per thread: what to begin with is fetched once, not sent with every task.

    Raises
    ------
    ClusterUnusable
        The worker can't make its parent's bytes.
    """
    from distributed import Variable, get_client

    if getattr(_begun, "team", None) == team:
        return
    try:
        content = Variable(team, client=get_client()).get(timeout=FETCH_S)
    except TimeoutError as error:
        raise _Unwanted from error
    expected, start = pickle.loads(zlib.decompress(content))
    faults = unfit(worker, expected)
    if faults:
        raise ClusterUnusable(f"{place_of(worker)} " + "; ".join(faults))
    function, arguments = pickle.loads(start)
    function(*arguments)
    _begun.team = team


def do(team: str, run: str, number: int, job: bytes) -> tuple[str, Any]:
    """One task of a run.

    Returns
    -------
    tuple
        `done` and the result, `failed` and an exception, `lost` if it has ended two workers already, `unwanted` if nobody waits for it.
    """
    from distributed import get_worker

    worker = get_worker()
    n_tries = _written_down(run, number)
    if n_tries > MAX_TRIES:
        return "lost", None
    teller = _Teller(worker, run, number, n_tries)
    try:
        kind, value = outcome(_begin, (team, worker))
        if kind == "done":
            with heard_by(teller.hear):
                kind, value = outcome(*pickle.loads(zlib.decompress(job)))
    except _Unwanted:
        return "unwanted", None
    teller.send()
    return kind, value


def _written_down(run: str, number: int) -> int:
    """Write down at the scheduler that a task begins; how often it has begun."""
    from distributed import get_client

    client, topic = get_client(), f"{run}-{number}"
    client.log_event([topic, run], {"task": number, "begun": True})
    return len(client.get_events(topic))


class _Teller:
    """Sends what is told now and then, in one message, with the number of the try."""

    def __init__(self, worker: Any, run: str, number: int, n_tries: int) -> None:
        self._worker = worker
        self._run = run
        self._about = {"task": number, "try": n_tries}
        self._key = worker.get_current_task()
        self._unsent: list[Any] = []
        self._sent_s = time.monotonic()

    def hear(self, value: Any) -> None:
        """Keep a value for the next message; ends the task if nobody waits for it."""
        state = self._worker.state.tasks.get(self._key)
        if state is None or state.state in ("cancelled", "released", "forgotten"):
            raise _Unwanted
        self._unsent.append(value)
        if time.monotonic() - self._sent_s >= TELL_EVERY_S:
            self.send()

    def send(self) -> None:
        """Send what wasn't yet."""
        if self._unsent:
            self._worker.log_event(self._run, {**self._about, "told": pickle.dumps(self._unsent)})
        self._unsent, self._sent_s = [], time.monotonic()


# -- before anything ---------------------------------------------------------------------------------------------------


def asker(expected: Mapping[str, str]) -> Callable[[Any], list[str]]:
    """A function that asks a worker what it lacks; it travels as code, for the worker may not have this module."""
    asked = dict(expected)

    def ask(dask_worker: Any) -> list[str]:
        try:
            from builder.dask_worker import unfit
        except ImportError as error:
            return [
                f"hasn't this version of vocalgrad ({error}): install the same commit, with its [dask] extra, in the worker's environment"
            ]
        return unfit(dask_worker, asked)

    return ask
