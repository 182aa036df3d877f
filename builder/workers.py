"""Worker processes: a `map` over them, and how they begin and end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import builder
from builder.errors import WorkerDied


def start_quietly() -> None:
    """Begin a worker: it leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends the workers
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed ends too: it would write beside the next build."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def processes(n_workers: int) -> Iterator[Callable[..., Any]]:
    """A `map` over worker processes, results in order; the plain one for one worker.

    Raises
    ------
    WorkerDied
        A worker ended without an answer.
    """
    if n_workers == 1:
        yield map
        return
    builder.pin_threads()
    pool = ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"), start_quietly)
    try:
        yield pool.map
    except BrokenProcessPool as error:
        raise WorkerDied("a worker process ended without an answer (killed, or out of memory): run the same command again") from error
    finally:
        stop(pool)


def stop(pool: ProcessPoolExecutor) -> None:
    """End the workers now: what they haven't finished is made again at the next run."""
    running = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.terminate()
