"""How work gets onto workers: what stages ask of an engine, whichever it is, and the choice of one.

An `Engine` makes teams of workers; a `Team` does tasks and tells of them. `workers.Local` has its own processes on this machine,
`dask_engine.Dask` those of a dask cluster. The results never depend on the engine.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache
from typing import Any, Protocol

from builder.errors import WorkerDied

MAX_TRIES = 2
"""How often a task may end its worker before it's given up."""
ADVICE = "run the same command again, with fewer WORKERS if memory was short"

Told = Callable[[int, Any], object]
"""(number of the task, what its worker told); None: what it told before doesn't count, for it's done again."""
Map = Callable[..., Iterable[Any]]
"""As the builtin `map`."""
Step = Callable[[str, int, str], AbstractContextManager[Any]]
"""(name, total, unit) -> a context that shows how far a step of some work is, by what is told in it."""


def untold(*_: Any) -> None:
    """For progress that nobody looks at, and workers that need no beginning."""


def unseen(*_: Any) -> AbstractContextManager[None]:
    """For steps that nobody looks at."""
    return nullcontext()


class Team(Protocol):
    """Workers that are begun in one way; to be closed."""

    def run(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], told: Told = untold, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Do tasks, the first ones first; (number, result) of each as it's done.

        Parameters
        ----------
        work, tasks
            `work(*task)`, importable and picklable, results too.
        told
            Hears what workers `tell`.
        names
            Of the tasks, for people.

        Raises
        ------
        WorkerDied
            After all others were done: tasks that ended their worker twice, by name.
        Exception
            What `work` raises, at once.
        """

    def close(self) -> None:
        """End what the team still does."""


class Engine(Protocol):
    """A place for work. `str` of it tells people what it is."""

    def team(self, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()) -> Team:
        """Workers in each of which `start(*arguments)` is called before its first task; importable and picklable."""

    def each(
        self, told: Told = untold, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()
    ) -> AbstractContextManager[Map]:
        """A `map` over a team, results in order."""


@contextmanager
def map_of(team: Team, told: Told) -> Iterator[Map]:
    """A `map` over a team that's closed afterwards."""
    with closing(team):
        yield lambda work, *columns: in_order(team.run(work, list(zip(*columns, strict=False)), told))


def in_order(results: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Results by their numbers, from 0."""
    found: dict[int, Any] = {}
    following = 0
    for number, result in results:
        found[number] = result
        while following in found:
            yield found.pop(following)
            following += 1


def warn(line: str) -> None:
    """Tell people of something that went wrong and was made good."""
    print(line, file=sys.stderr, flush=True)


def names_of(tasks: Sequence[Any], names: Sequence[str]) -> Sequence[str]:
    """Names of tasks for people; their numbers if they have none."""
    return names or [f"task {number + 1} of {len(tasks)}" for number in range(len(tasks))]


def given_up(lost: Mapping[int, str], names: Sequence[str]) -> WorkerDied:
    """The error for tasks that ended their workers: number -> how."""
    listed = "\n".join(f"  {names[task]}: its worker process ended twice, {how}" for task, how in sorted(lost.items()))
    return WorkerDied(f"{len(lost)} of {len(names)} couldn't be done, all others are done: {ADVICE}\n{listed}")


# -- in a worker ------------------------------------------------------------------------------------------------------

_tell: Callable[[Any], object] = untold


def tell(value: Any) -> None:
    """Tell whoever waits for this task how far it is; nobody listens outside of an engine."""
    _tell(value)


@contextmanager
def heard_by(listener: Callable[[Any], object]) -> Iterator[None]:
    """What is told in this process goes to the listener."""
    global _tell
    before, _tell = _tell, listener
    try:
        yield
    finally:
        _tell = before


def outcome(work: Callable[..., Any], task: tuple[Any, ...]) -> tuple[str, Any]:
    """`done` and the result, or `failed` and an exception that can travel."""
    try:
        return "done", work(*task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return "failed", RuntimeError(f"{type(error).__name__}: {error}")
        return "failed", error
    finally:
        give_back_memory()


def give_back_memory() -> None:
    """Free what only refers to itself, and return what a task has freed to the system.

    glibc keeps it in pieces, and a worker would grow over thousands of clips.
    """
    gc.collect()
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


# -- the choice -------------------------------------------------------------------------------------------------------


def n_cores() -> int:
    """Cores that this process may use: by its affinity and its control group's quota, of versions 1 and 2."""
    import joblib

    return int(joblib.cpu_count())


def opened(name: str, n_workers: int | None, scheduler: str | None = None, wait_s: float = 60.0) -> AbstractContextManager[Engine]:
    """The engine of a name, closed afterwards.

    Parameters
    ----------
    name
        `local` or `dask`.
    n_workers
        Processes on this machine, or None for one for each core that it may use; a dask cluster that runs already has its own.
    scheduler
        Address or scheduler file of a running dask scheduler; None starts a cluster on this machine.
    wait_s
        How long a scheduler and its first worker are waited for, in seconds.

    Raises
    ------
    ClusterUnusable
        The cluster can't be reached, has no workers, or has workers that can't make the same bytes.
    """
    n_workers = n_workers or n_cores()
    if name == "dask":
        from builder import dask_engine

        return dask_engine.opened(n_workers, scheduler, wait_s)
    from builder.workers import Local

    return Local(n_workers)
