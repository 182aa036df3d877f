"""Worker processes that may die: each is given one task at a time over a pipe of its own, and its death costs that task only.

A pool of `concurrent.futures` breaks as a whole when one of its processes is killed, and ends the others. Its processes also share
locks and queues: one that's killed while it holds a lock, or with half a message sent, leaves the rest waiting for ever. Here nothing
is shared, a dead worker is told by the end of its pipe, and its task is given once more, to another process.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self

import builder
from builder.engines import ADVICE, MAX_TRIES, Map, Told, given_up, heard_by, map_of, names_of, outcome, untold, warn
from builder.errors import WorkerDied
from builder.words import counted

POLL_S = 0.2
MAX_FAILED_STARTS = 5
"""Workers in a row that end before they take a task, before all is given up."""
PR_SET_PDEATHSIG = 1
STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that stop a command."""

# -- in a worker ------------------------------------------------------------------------------------------------------


def start_quietly() -> None:
    """Begin a worker: it leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends the workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed ends too: it would write beside the next build."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _serve(pipe: Connection) -> None:
    """Begin for crews and do their tasks, until the parent closes its end of the pipe, or is gone."""
    start_quietly()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), heard_by(lambda value: pipe.send(("told", value))):
        while True:
            begins, work, task = pipe.recv()
            kind, value = outcome(work, task)
            pipe.send(("ready", None) if begins and kind == "done" else (kind, value))


# -- in the parent ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Worker:
    """A process, our end of its pipe, the number of the task that it does, and whether it has begun for its crew."""

    process: BaseProcess
    pipe: Connection
    task: int | None = None
    ready: bool = False

    def answer(self) -> tuple[str, Any]:
        """The next message; `died`, and how, at the end of the pipe."""
        try:
            kind, value = self.pipe.recv()
        except (EOFError, OSError):
            return "died", self.ended()
        return ("died", "for want of memory (MemoryError)") if kind == "failed" and isinstance(value, MemoryError) else (kind, value)

    def ended(self) -> str:
        """How the process ended, for people; it's ended now if it hasn't."""
        self.process.join(1.0)
        code = self.process.exitcode
        self.stop()
        if code is None:
            return "without an answer"
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return f"killed, most often for want of memory (exit {code})"
        return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"

    def stop(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Crew:
    """Some worker processes.

    Parameters
    ----------
    n_workers
        How many at most.
    start, arguments
        Called in each worker before its first task; must be importable and picklable.
    spare
        Processes that have nothing to do, which are taken before new ones are started, and given back at the end; None if there are none.
    """

    def __init__(
        self,
        n_workers: int,
        start: Callable[..., object] = untold,
        arguments: tuple[Any, ...] = (),
        spare: list[_Worker] | None = None,
    ) -> None:
        builder.pin_threads()
        self.n_workers = n_workers
        self._start = start
        self._arguments = arguments
        self._spare = spare
        self._idle: list[_Worker] = []

    def run(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], told: Told = untold, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Results as they come; see `engines.Team`."""
        round_ = _Round(self, work, tasks, told, names)
        try:
            yield from round_.results()
        finally:
            self._idle += round_.dismissed()

    def worker(self) -> _Worker:
        """One that waits for a task, or a new one."""
        if self._idle:
            return self._idle.pop()
        worker = self._spare.pop() if self._spare else _started()
        worker.ready = False
        with suppress(OSError):  # it's dead: the end of its pipe says so at the next look
            worker.pipe.send((True, self._start, self._arguments))
        return worker

    def close(self) -> None:
        """Give the workers back, or end them now."""
        if self._spare is not None:
            self._spare += self._idle
            self._idle = []
        while self._idle:
            self._idle.pop().stop()


def _started() -> _Worker:
    """A new process."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    resource_tracker.ensure_running()  # its start would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # the child inherits this until it ignores Ctrl-C
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()  # so that the pipe ends when the worker does
    return _Worker(process, ours)


class _Round:
    """One run of a crew over some tasks."""

    def __init__(self, crew: Crew, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], told: Told, names: Sequence[str]) -> None:
        self._crew = crew
        self._work = work
        self._tasks = tasks
        self._told = told
        self._names = names_of(tasks, names)
        self._waiting = deque(range(len(tasks)))
        self._workers: dict[Connection, _Worker] = {}
        self._deaths: Counter[int] = Counter()
        self._lost: dict[int, str] = {}
        self._failed_starts = 0

    def results(self) -> Iterator[tuple[int, Any]]:
        """Results as they come; raises as `Crew.run`."""
        while self._waiting or any(worker.task is not None for worker in self._workers.values()):
            self._hire()
            for pipe in wait(list(self._workers), POLL_S):
                worker = self._workers[pipe]  # type: ignore[index]
                task = worker.task
                kind, value = worker.answer()
                if kind == "failed":
                    worker.task = None
                    raise value
                if kind == "told" and task is not None:
                    self._told(task, value)
                elif kind == "died":
                    self._bury(worker, value)
                else:
                    worker.ready, worker.task = True, None
                    self._failed_starts = 0
                    self._occupy(worker)
                if kind == "done" and task is not None:
                    yield task, value
        if self._lost:
            raise given_up(self._lost, self._names)

    def _hire(self) -> None:
        """See that tasks that wait have workers: those that have nothing to do, then new ones."""
        for worker in list(self._workers.values()):
            if worker.ready and worker.task is None:
                self._occupy(worker)
        n_free = sum(worker.task is None for worker in self._workers.values())
        while n_free < len(self._waiting) and len(self._workers) < self._crew.n_workers:
            worker = self._crew.worker()
            self._workers[worker.pipe] = worker
            if worker.ready:
                self._occupy(worker)
            else:
                n_free += 1

    def _occupy(self, worker: _Worker) -> None:
        """Give a worker that's ready its next task."""
        if not self._waiting:
            return
        worker.task = self._waiting.popleft()
        with suppress(OSError):  # it's dead: the end of its pipe says so at the next look
            worker.pipe.send((False, self._work, self._tasks[worker.task]))

    def _bury(self, worker: _Worker, how: str) -> None:
        """A worker has died: its task is given to another, once."""
        del self._workers[worker.pipe]
        worker.stop()
        task = worker.task
        if task is None:
            self._failed_starts += not worker.ready
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise WorkerDied(f"worker processes end before they take a task: the last {self._failed_starts}, {how}; {ADVICE}")
            return
        self._told(task, None)
        self._deaths[task] += 1
        if self._deaths[task] < MAX_TRIES:
            warn(f"{self._names[task]}: its worker process ended, {how}; it's done once more by another")
            self._waiting.append(task)
        else:
            self._lost[task] = how

    def dismissed(self) -> list[_Worker]:
        """Workers that may be given other tasks; those in the middle of one are ended."""
        kept = []
        for worker in self._workers.values():
            if worker.ready and worker.task is None:
                kept.append(worker)
            else:
                worker.stop()
        return kept


class Local:
    """An engine of processes on this machine; a map over one worker stays in this process.

    As a context it keeps its processes for its next team: they take seconds to load what they work with.

    Parameters
    ----------
    n_workers
        How many processes at most.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._spare: list[_Worker] | None = None

    def __str__(self) -> str:
        return counted(self.n_workers, "worker")

    def team(self, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()) -> Crew:
        """Worker processes, each started when there's a task for it."""
        return Crew(self.n_workers, start, arguments, self._spare)

    def each(
        self, told: Told = untold, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()
    ) -> AbstractContextManager[Map]:
        """A `map` over worker processes, results in order; the plain one for one worker."""
        if self.n_workers > 1:
            return map_of(self.team(start, arguments), told)
        return _plain_map(told, start, arguments)

    def __enter__(self) -> Self:
        self._spare = []
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        """End the processes."""
        spare, self._spare = self._spare or [], None
        for worker in spare:
            worker.stop()


@contextmanager
def _plain_map(told: Told, start: Callable[..., object], arguments: tuple[Any, ...]) -> Iterator[Map]:
    start(*arguments)
    with heard_by(lambda value: told(0, value)):
        yield map
