"""Work on dask: on a cluster that runs already, or on one of this machine that ends with the command.

Workers must make the same bytes as this process: same code, same versions, one thread. They're asked before any work; one that joins
later is asked before its first task. Errors of ours come back as they are; a worker that dies costs its task only (see `dask_worker`).
This module and `dask_worker` are the only ones that know dask.
"""

from __future__ import annotations

import json
import logging
import pickle
import queue
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any
from uuid import uuid4

from builder.dask_worker import asker, credentials, do, packed
from builder.engines import MAX_TRIES, Map, Told, given_up, map_of, names_of, untold
from builder.errors import ClusterUnusable

LOOK_EVERY_S = 2.0
"""How often the cluster is looked at while nothing is heard."""
MAX_GIVEN_AGAIN = 5
"""How often a task is given again that the scheduler gave up though it never began, or began once."""
START_A_WORKER = "start some with `dask worker ADDRESS --nthreads 1`, in an environment with the same commit of vocalgrad"
INSTALL = "--engine dask needs the extra: `pip install 'vocalgrad[dask]'`, or leave --engine out"

# -- to a cluster and from it -----------------------------------------------------------------------------------------


@contextmanager
def opened(n_workers: int, scheduler: str | None, wait_s: float) -> Iterator[Dask]:
    """An engine on a running cluster, or on one of so many workers that ends with it; see `engines.opened`."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ClusterUnusable(f"{INSTALL} ({error})") from error
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}))  # corpora's tables are large
        if scheduler is None:
            address = stack.enter_context(_own_cluster(n_workers)).scheduler_address
        else:
            address = _address(scheduler, wait_s)
        try:
            client = stack.enter_context(closing(distributed.Client(address, timeout=wait_s, set_as_default=False)))
        except (OSError, ValueError) as error:
            raise ClusterUnusable(
                f"no dask scheduler answers at {address} within {wait_s:.0f} s ({error}): start one with `dask scheduler`, "
                "and see that this machine reaches its address"
            ) from error
        engine = Dask(client, address, wait_s)
        engine.check()
        yield engine


def _own_cluster(n_workers: int) -> AbstractContextManager[Any]:
    """A cluster on this machine.

    Its workers have no limit of memory: at a share of one dask would stop giving them tasks, then end them, while what fills the
    memory is one task's own, and nothing gets better by waiting. As with processes, the system ends a worker that takes too much, and
    its task is done again.
    """
    import distributed

    resource_tracker.ensure_running()  # its start would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C goes to the whole group; this process ends the workers
    try:
        cluster: AbstractContextManager[Any] = distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # the port of its health page; another may have the usual one
            scheduler_kwargs={"dashboard": False},
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return cluster


def _address(scheduler: str, wait_s: float) -> str:
    """The address itself, or that in a scheduler file, which is waited for."""
    if "://" in scheduler:
        return scheduler
    path, until_s = Path(scheduler), time.monotonic() + wait_s
    while True:
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            if time.monotonic() > until_s:
                raise ClusterUnusable(
                    f"--scheduler {scheduler} is neither an address such as tcp://host:8786 nor, within {wait_s:.0f} s, a scheduler file "
                    f"({error}): start one with `dask scheduler --scheduler-file {scheduler}`"
                ) from error
        time.sleep(0.2)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Dask:
    """An engine on a dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client`.
    address
        Of its scheduler, for people.
    wait_s
        How long to wait for workers while there are none, in seconds.
    """

    def __init__(self, client: Any, address: str, wait_s: float) -> None:
        self.client = client
        self.address = address
        self.wait_s = wait_s
        self._without_since_s: float | None = None

    def __str__(self) -> str:
        return f"{len(self.workers())} workers of dask at {self.address}"

    def team(self, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()) -> DaskTeam:
        """The cluster's workers, begun in one way."""
        return DaskTeam(self, start, arguments)

    def each(
        self, told: Told = untold, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()
    ) -> AbstractContextManager[Map]:
        """A `map` over the cluster's workers, results in order."""
        return map_of(self.team(start, arguments), told)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Address -> what the scheduler knows of a worker."""
        found: dict[str, dict[str, Any]] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def check(self) -> None:
        """Wait for a worker, and ask all that are there whether they can make this process's bytes.

        Raises
        ------
        ClusterUnusable
            There's none, or one of them can't: each is listed with what it lacks.
        """
        while not self.workers():
            self.wait()
            time.sleep(0.2)
        self.wait()
        faults = [*self._other_pythons()] or [*self._unfit()]
        if faults:
            raise ClusterUnusable(
                f"workers of {self.address} can't make the bytes that this process would; nothing was begun:\n"
                + "\n".join(f"  {fault}" for fault in sorted(faults))
            )

    def _other_pythons(self) -> Iterator[str]:
        """Workers with another Python, which couldn't even read what they're asked."""
        found = self.client.get_versions()
        mine = _minor(found["client"])
        for address, worker in found["workers"].items():
            if _minor(worker) != mine:
                yield f"worker at {address} has Python {_minor(worker)}, this process has {mine}"

    def _unfit(self) -> Iterator[str]:
        names = {address: worker["name"] for address, worker in self.workers().items()}
        answers = self.client.run(asker(credentials()), on_error="return")
        for address, lacking in answers.items():
            said = [f"can't be asked: {lacking}"] if isinstance(lacking, BaseException) else lacking
            yield from (f"worker {names.get(address, '?')} at {address} {fault}" for fault in said)

    def wait(self) -> None:
        """Called now and then: says so if there's no worker that takes tasks, and raises `ClusterUnusable` if that lasts."""
        if self.client.status != "running":
            raise ClusterUnusable(f"the connection to the dask scheduler at {self.address} is lost: run the same command again to go on")
        there = self.workers()
        if any(worker["status"] == "running" for worker in there.values()):
            self._without_since_s = None
            return
        state = f"its {len(there)} workers take no tasks (paused by their limit of memory)" if there else "it has no workers"
        advice = "give them more memory, or fewer to a machine" if there else START_A_WORKER.replace("ADDRESS", self.address)
        if self._without_since_s is None:
            self._without_since_s = time.monotonic()
            _say(f"dask scheduler at {self.address}: {state}; waiting for {self.wait_s:.0f} s")
        elif time.monotonic() - self._without_since_s > self.wait_s:
            raise ClusterUnusable(f"dask scheduler at {self.address}: {state}, for {self.wait_s:.0f} s: {advice}, and run this again")


def _minor(versions: dict[str, Any]) -> str:
    return ".".join(versions["host"]["python"].split(".")[:2])


# -- tasks ------------------------------------------------------------------------------------------------------------


class DaskTeam:
    """The workers of a cluster, begun in one way; see `engines.Team`."""

    def __init__(self, engine: Dask, start: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.engine = engine
        self._name = f"vocalgrad-{uuid4().hex}"
        self._start = start
        self._arguments = arguments
        self._n_runs = 0
        self._beginning: Any = None

    def run(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], told: Told = untold, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Results as they come; see `engines.Team`."""
        from distributed import Variable

        if self._beginning is None:
            self._beginning = Variable(self._name, client=self.engine.client)
            self._beginning.set(packed(self._start, self._arguments))
        self._n_runs += 1
        round_ = _Round(self.engine, self._name, self._n_runs, told, names_of(tasks, names))
        try:
            yield from round_.results([pickle.dumps((work, task)) for task in tasks])
        finally:
            round_.end()

    def close(self) -> None:
        """Have the scheduler forget what workers begin with."""
        if self._beginning is not None:
            self._beginning.delete()
            self._beginning = None


class _Round:
    """One run of a team over some tasks."""

    def __init__(self, engine: Dask, team: str, number: int, told: Told, names: Sequence[str]) -> None:
        self._engine = engine
        self._team = team
        self._name = f"{team}-{number}"
        self._told = told
        self._names = names
        self._jobs: list[bytes] = []
        self._heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._number: dict[Any, int] = {}
        self._n_begun: Counter[int] = Counter()
        self._n_given: Counter[int] = Counter()
        self._lost: dict[int, str] = {}

    def results(self, jobs: list[bytes]) -> Iterator[tuple[int, Any]]:
        """Results as they come; raises as `engines.Team.run`."""
        self._jobs = jobs
        self._engine.client.subscribe_topic(self._name, lambda event: self._heard.put(("event", event[1])))
        for number in range(len(jobs)):
            self._give(number)
        while self._number:
            try:
                kind, value = self._heard.get(timeout=LOOK_EVERY_S)
            except queue.Empty:
                self._engine.wait()
                continue
            if kind == "event":
                self._hear(value)
                continue
            number = self._number.pop(value)
            kind, found = self._answer(value)
            value.release()
            if kind == "failed":
                raise found
            if kind == "done":
                yield number, found
            else:
                self._bury(number, kind, found)
        if self._lost:
            raise given_up(self._lost, self._names)

    def _give(self, number: int) -> None:
        """Give a task to the scheduler: the first ones first."""
        self._n_given[number] += 1
        key = f"{self._name}-{number}-{self._n_given[number]}"
        job = self._jobs[number]
        future = self._engine.client.submit(do, self._team, self._name, number, job, key=key, pure=False, priority=-number)
        self._number[future] = number
        future.add_done_callback(lambda done: self._heard.put(("over", done)))

    def _hear(self, event: dict[str, Any]) -> None:
        """A task begins, or a worker tells of it; what a try tells that was given up isn't heard."""
        number = event["task"]
        if "begun" in event:
            self._n_begun[number] += 1
            if 1 < self._n_begun[number] <= MAX_TRIES:
                self._told(number, None)
                _say(f"{self._names[number]}: its worker ended or was lost; it's done once more by another")
        elif event["try"] == self._n_begun[number]:
            for value in pickle.loads(event["told"]):
                self._told(number, value)

    def _answer(self, future: Any) -> tuple[str, Any]:
        """What became of a task: `done`, `failed`, or `died` and how."""
        from distributed import CancelledError, KilledWorker

        try:
            kind, value = future.result()
        except KilledWorker as error:
            return "died", f"on {error.last_worker.address} at last"
        except CancelledError:
            return "cancelled", "the scheduler forgot it"
        except Exception as error:
            return "failed", ClusterUnusable(
                f"a worker of the dask cluster at {self._engine.address} can't do tasks ({type(error).__name__}: {error}): "
                "have the same commit of vocalgrad in the environment of every worker"
            )
        if kind == "lost":
            return "lost", "killed most often for want of memory"
        return ("died", "for want of memory (MemoryError)") if kind == "failed" and isinstance(value, MemoryError) else (kind, value)

    def _bury(self, number: int, kind: str, how: str) -> None:
        """A task has no result: it's given again unless it has ended two workers."""
        self._engine.wait()
        if kind == "lost" or self._n_begun[number] >= MAX_TRIES or self._n_given[number] > MAX_GIVEN_AGAIN:
            self._told(number, None)
            self._lost[number] = how
        else:
            self._give(number)

    def end(self) -> None:
        """Let go of all that isn't done: what waits is dropped, what was begun ends when it next tells."""
        with suppress(ValueError):
            self._engine.client.unsubscribe_topic(self._name)
        for future in self._number:
            future.release()
        self._number = {}
