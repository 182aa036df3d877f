"""Tasks on dask: given to the scheduler some ahead of its workers, done again once if their worker dies, heard while they're at work."""

from __future__ import annotations

import pickle
import queue
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol
from uuid import uuid4

from builder.dask_worker import do, packed
from builder.engines import MAX_TRIES, Told, given_up, names_of, untold, warn
from builder.errors import ClusterUnusable

LOOK_EVERY_S = 2.0
"""How often the cluster is looked at while nothing is heard."""
AHEAD = 8
"""Tasks that the scheduler has beyond two for each worker."""
MAX_GIVEN_AGAIN = 5
"""How often a task is given again that the scheduler gave up though it never began, or began once."""


class Cluster(Protocol):
    """What a team needs of its cluster."""

    client: Any
    address: str

    def n_workers(self) -> int:
        """Workers that are there."""

    def wait(self) -> None:
        """Called now and then; raises `ClusterUnusable` if the cluster can't go on."""


class DaskTeam:
    """The workers of a cluster, begun in one way; see `engines.Team`."""

    def __init__(self, engine: Cluster, start: Callable[..., object], arguments: tuple[Any, ...]) -> None:
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
        round_ = _Round(self.engine, f"{self._name}-{self._n_runs}", work, tasks, told, names_of(tasks, names))
        try:
            yield from round_.results()
        finally:
            round_.end()

    def close(self) -> None:
        """Have the scheduler forget what workers begin with."""
        if self._beginning is not None:
            self._beginning.delete()
            self._beginning = None


class _Round:
    """One run of a team over some tasks."""

    def __init__(
        self, engine: Cluster, name: str, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], told: Told, names: Sequence[str]
    ) -> None:
        self._engine = engine
        self._team, _, _ = name.rpartition("-")
        self._name = name
        self._work = work
        self._tasks = tasks
        self._told = told
        self._names = names
        self._waiting = deque(range(len(tasks)))
        self._ahead = _Ahead(engine)
        self._heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._number: dict[Any, int] = {}
        self._n_begun: Counter[int] = Counter()
        self._n_given: Counter[int] = Counter()
        self._lost: dict[int, str] = {}

    def results(self) -> Iterator[tuple[int, Any]]:
        """Results as they come; raises as `engines.Team.run`."""
        self._engine.client.subscribe_topic(self._name, lambda event: self._heard.put(("event", event[1])))
        while self._waiting or self._number:
            while self._waiting and len(self._number) < self._ahead.of_tasks():
                self._give(self._waiting.popleft())
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
        job = zlib.compress(pickle.dumps((self._work, self._tasks[number])), 1)
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
                warn(f"{self._names[number]}: its worker ended or was lost; it's done once more by another")
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
            self._waiting.appendleft(number)

    def end(self) -> None:
        """Let go of all that isn't done: what waits is dropped, what was begun ends when it next tells."""
        with suppress(ValueError):
            self._engine.client.unsubscribe_topic(self._name)
        for future in self._number:
            future.release()
        self._number = {}


class _Ahead:
    """How many tasks the scheduler has at once: two for each worker and some, so that none waits and a scheduler that adds workers to work
    sees it; not all, for a shard's plan names all the recordings that it may draw on."""

    def __init__(self, engine: Cluster) -> None:
        self._engine = engine
        self._n_tasks = 0
        self._looked_s = 0.0

    def of_tasks(self) -> int:
        """The number, looked up now and then: workers come and go."""
        if self._n_tasks == 0 or time.monotonic() - self._looked_s > LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            self._n_tasks = 2 * self._engine.n_workers() + AHEAD
        return self._n_tasks
